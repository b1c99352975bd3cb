//! `rukpakctl store copy`: a folder into a bucket, and back.

use std::process::{Command, Output};

use rukpak_store::{RefKind, Store};
use rukpak_tests::{BucketServer, tools};

use crate::store::world::{LONG, World, blocking, copies, load, put, tree};

impl World {
    fn copy_store(&self, from: &str, to: &str) -> Output {
        self.copy_with(from, to, &[])
    }

    /// The same, with flags about uploads.
    fn copy_with(&self, from: &str, to: &str, uploads: &[&str]) -> Output {
        let mut command = Command::new(tools::workspace_binary("rukpakctl").expect("it is built"));
        let command =
            command.args(["store", "copy", from, to]).args(uploads).envs(BucketServer::environment(&self.server.url()));
        command.output().expect("it runs")
    }
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_goes_into_a_bucket_and_back_again() {
    let world = World::new().await;
    let (old, new) = (world.disk("old"), world.disk("new"));
    let store = Store::open(&old).unwrap();
    let one = put(&store, "one", tree("1")).await;
    let two = put(&store, "two", tree("2")).await;
    put(&store, "same", tree("2")).await;
    let (folder, bucket) = (old.display().to_string(), world.location());
    let done = world.copy_store(&folder, &bucket);
    assert!(done.status.success(), "{}", text(&done));
    assert!(text(&done).contains("2 contents copied"), "{}", text(&done));
    assert!(text(&done).contains("0 there already, 3 refs"), "{}", text(&done));
    let shared = world.store("other", LONG);
    assert_eq!((load(&shared, &one).await.unwrap(), load(&shared, &two).await.unwrap()), (tree("1"), tree("2")));
    assert_eq!(world.keys("v1/probes").await, Vec::<String>::new());

    // Again: nothing is copied. One that is missing: that one.
    assert!(text(&world.copy_store(&folder, &bucket)).contains("0 contents copied (0 bytes), 2 there already"));
    let key = world.keys("v1/content").await.remove(0);
    let sharing = world.sharing(LONG, 0);
    tokio::task::spawn_blocking(move || sharing.bucket.delete(&key)).await.unwrap().unwrap();
    assert!(text(&world.copy_store(&folder, &bucket)).contains("1 content copied"));

    let done = world.copy_store(&bucket, &new.display().to_string());
    assert!(done.status.success(), "{}", text(&done));
    let back = Store::open(&new).unwrap();
    let (before, after) = (store.refs(RefKind::Bundle).unwrap(), back.refs(RefKind::Bundle).unwrap());
    assert_eq!(before, after);
    assert_eq!((copies(&new), load(&back, &two).await.unwrap()), (2, tree("2")));
}

#[tokio::test(flavor = "multi_thread")]
async fn uploads_that_were_not_unpacked_yet_are_copied_too() {
    let world = World::new().await;
    let (old, new) = (world.disk("old"), world.disk("new"));
    put(&Store::open(&old).unwrap(), "one", tree("1")).await;
    let (sent, received) = (world.disk("sent"), world.disk("received"));
    std::fs::create_dir_all(&sent).unwrap();
    for (name, content) in [("uid-1.tgz", "first"), ("uid-2.tgz", "second"), (".receiving-x", "half")] {
        std::fs::write(sent.join(name), content).unwrap();
    }
    let [folder, back, sent_to, received_at] = [&old, &new, &sent, &received].map(|path| path.display().to_string());
    let bucket = world.location();
    let without = world.copy_store(&folder, &bucket);
    assert!(
        text(&without).contains("uploads are not copied: --uploads-from and --uploads-to name"),
        "{}",
        text(&without)
    );
    assert_eq!(world.keys("v1/uploads").await, Vec::<String>::new());

    let copied = world.copy_with(&folder, &bucket, &["--uploads-from", &sent_to]);
    assert!(text(&copied).contains("; 2 uploads copied (11 bytes), 0 there already"), "{}", text(&copied));
    assert_eq!(world.keys("v1/uploads").await.len(), 2);
    // Again: a newer one that has come since is left.
    std::fs::write(sent.join("uid-2.tgz"), "older").unwrap();
    let again = world.copy_with(&folder, &bucket, &["--uploads-from", &sent_to]);
    assert!(text(&again).contains("; 0 uploads copied (0 bytes), 2 there already"), "{}", text(&again));

    let done = world.copy_with(&bucket, &back, &["--uploads-to", &received_at]);
    assert!(done.status.success(), "{}", text(&done));
    let read = |name: &str| std::fs::read_to_string(received.join(name)).unwrap();
    assert_eq!((read("uid-1.tgz"), read("uid-2.tgz")), ("first".to_owned(), "second".to_owned()));
    assert_eq!(std::fs::read_dir(&received).unwrap().count(), 2);
    let refused = world.copy_with(&bucket, &back, &["--uploads-from", &sent_to]);
    assert_eq!(refused.status.code(), Some(1), "{}", text(&refused));
    assert!(text(&refused).contains("is a bucket, which has its uploads"), "{}", text(&refused));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_damaged_is_not_copied() {
    let world = World::new().await;
    let store = Store::open(&world.disk("old")).unwrap();
    let digest = put(&store, "one", tree("1")).await;
    let path = world.copy("old", &digest);
    let mut damaged = std::fs::read(&path).unwrap();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    std::fs::write(&path, damaged).unwrap();
    let done = world.copy_store(&world.disk("old").display().to_string(), &world.location());
    assert_eq!(done.status.code(), Some(1), "{}", text(&done));
    assert!(text(&done).contains(&format!("{} is corrupt", path.display())), "{}", text(&done));
    assert_eq!((world.keys("v1/content").await, world.keys("v1/refs").await), (Vec::new(), Vec::new()));
    let none = world.copy_store(&world.disk("nothing").display().to_string(), &world.location());
    assert_eq!(none.status.code(), Some(1));
    assert!(text(&none).contains("is not a content store"), "{}", text(&none));
    let shared = world.store("other", LONG);
    assert_eq!(blocking(&shared, |store| store.get_ref(RefKind::Bundle, "one")).await.unwrap(), None);
}
