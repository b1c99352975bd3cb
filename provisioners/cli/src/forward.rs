//! A port of a Pod, here: `kubectl port-forward`, without kubectl.

use std::io;
use std::net::Ipv4Addr;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::cluster::Cluster;
use crate::failure::Failure;
use crate::output::{chain, to_stderr};

/// The port of the Service that speaks TLS. Its name is upstream's.
const PORT: &str = "https";

/// A port on loopback whose connections end in a Pod, until this is dropped.
#[derive(Debug)]
pub struct Forward {
    port: u16,
    task: JoinHandle<()>,
}

impl Forward {
    /// Finds a Pod behind the Service. It is connected to only when somebody connects here.
    pub async fn open(cluster: &Cluster, namespace: &str, service: &str) -> Result<Self, Failure> {
        let found = cluster.ready_pod(namespace, service, PORT).await?;
        let (pod, target) = found.ok_or_else(|| {
            let what = format!("service {namespace}/{service} leads to no ready Pod with a port {PORT}");
            Failure::unknown(format!("{what}; is the controller running?"))
        })?;
        let failed = |error: io::Error| Failure::during("listen on a port of this machine", &error);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        let task = tokio::spawn(serve(listener, cluster.pods(namespace), pod, target));
        Ok(Self { port, task })
    }

    pub fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Forward {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(listener: TcpListener, pods: Api<Pod>, pod: String, port: u16) {
    while let Ok((connection, _)) = listener.accept().await {
        let (pods, pod) = (pods.clone(), pod.clone());
        tokio::spawn(async move {
            if let Err(error) = carry(connection, &pods, &pod, port).await {
                // Whoever connected only sees the end of the connection.
                to_stderr(&format!("port {port} of pod {pod}: {}", chain(error.as_ref())));
            }
        });
    }
}

async fn carry(
    mut connection: TcpStream,
    pods: &Api<Pod>,
    pod: &str,
    port: u16,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let mut forwarder = pods.portforward(pod, &[port]).await?;
    let mut stream = forwarder.take_stream(port).ok_or("the API server gave no stream")?;
    let failure = forwarder.take_error(port);
    tokio::io::copy_bidirectional(&mut connection, &mut stream).await?;
    drop(stream);
    forwarder.abort();
    match failure {
        Some(failure) => failure.await.map_or(Ok(()), |text| Err(text.into())),
        None => Ok(()),
    }
}
