//! What the signers of rules are known by, in place or in Secrets of the system namespace.

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use rukpak_crds::{Pem, PolicyRule, validate};
use rukpak_trust::{Requirement, RuleName, Texts};

use crate::bundle::failure::Failure;
use crate::context::Context;

/// The rules, with what their signers name.
///
/// # Errors
/// The API server did not say what a Secret holds. One that is not there is no such error.
pub async fn read(rules: &[(RuleName, PolicyRule)], context: &Context) -> Result<Vec<Requirement>, Failure> {
    let mut required = Vec::new();
    for (name, rule) in rules {
        let mut texts = Vec::new();
        for signer in &rule.signers {
            let failed = |source| Failure::SignerKey { signer: signer.name.clone(), source };
            texts.push(texts_of(&signer.pems(), context).await.map_err(failed)?);
        }
        required.push(Requirement { name: name.clone(), rule: rule.clone(), texts });
    }
    Ok(required)
}

async fn texts_of(pems: &[&Pem], context: &Context) -> Result<Texts, rukpak_runtime::api::Error> {
    let mut texts = Vec::new();
    for named in pems {
        texts.push(pem(named, context).await?);
    }
    Ok(texts.into_iter().collect())
}

/// The text, or why there is none.
async fn pem(pem: &Pem, context: &Context) -> Result<Result<String, String>, rukpak_runtime::api::Error> {
    if let Some(data) = &pem.data {
        return Ok(Ok(data.clone()));
    }
    let Some(reference) = &pem.secret_ref else { return Ok(Err("there is neither data nor secretRef".to_owned())) };
    let namespace = &context.system_namespace;
    let shown = format!("secret {namespace}/{}", reference.name);
    if !validate::is_name(&reference.name) {
        return Ok(Err(format!("{:?} is not the name of a secret", reference.name)));
    }
    let api: Api<Secret> = Api::namespaced(context.client.clone(), namespace);
    let Some(secret) = api.get_opt(&reference.name).await? else {
        return Ok(Err(format!("there is no {shown}")));
    };
    let data = secret.data.unwrap_or_default();
    let Some(ByteString(bytes)) = data.get(&reference.key) else {
        return Ok(Err(format!("{shown} has no key {}", reference.key)));
    };
    Ok(String::from_utf8(bytes.clone()).map_err(|_| format!("{shown}: key {} is not text", reference.key)))
}
