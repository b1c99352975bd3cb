//! A terminal in which a page is followed: its commands are typed, and what they print is compared with what it shows.

use std::time::{Duration, Instant};

use rukpak_tests::kubectl::{Printed, Terminal};
use rukpak_tests::{Plane, Process, tools};

use super::page::{Block, Page, Step, shown};

/// So long what one object says of another may lag behind.
const SETTLED: Duration = Duration::from_secs(30);
/// `kubectl wait` gives up after 30 s, which a busy machine may need: it is typed again until then.
const PATIENCE: Duration = Duration::from_mins(2);
/// Set to `write`, the output of each command is written into its page in place of what stands there.
const WRITE: &str = "TUTORIAL";
/// `rukpakctl` as the pages call it. Where no kubelet runs no port can be forwarded: it is told where the content service is.
const RUKPAKCTL: &str = r#"rukpakctl() {
  case $1 in
    run | install | upgrade | diff | why | content | rights) command rukpakctl "$@" --endpoint "$CONTENT" ;;
    *) command rukpakctl "$@" ;;
  esac
}"#;

/// A terminal in a copy of what a clone of the repository has.
pub struct Session {
    terminal: Terminal,
    /// Run before each command.
    prelude: String,
    /// What a page calls a server, and what it is called here.
    names: Vec<(String, String)>,
    _folder: tempfile::TempDir,
}

impl Session {
    /// A terminal of the administrator. `names` are pairs of what the pages call a server and what it is called here;
    /// `authorities`, in PEM, are those of the servers.
    pub async fn start(plane: &Plane, controller: &Process, names: &[(&str, String)], authorities: &str) -> Self {
        let folder = tools::temp_folder("tutorial").unwrap_or_else(|error| panic!("{error:#}"));
        let program = tools::workspace_binary("rukpakctl").unwrap_or_else(|error| panic!("{error:#}"));
        let programs = program.parent().expect("a program is in a folder").display();
        let terminal = Terminal::new(plane.kubeconfig_path()).unwrap_or_else(|error| panic!("{error:#}"));
        let content = format!("https://localhost:{}", controller.content_port);
        // What a machine that trusts the servers of the pages has for authorities.
        let trusted = folder.path().join(".trusted.pem");
        std::fs::write(&trusted, authorities).expect("a file can be written");
        let mut names: Vec<_> = names.iter().map(|(page, here)| ((*page).to_owned(), here.clone())).collect();
        names.push(("https://localhost:8443".to_owned(), content.clone()));
        names.push(("admin.kubeconfig".to_owned(), plane.kubeconfig_path().display().to_string()));
        let session = Self {
            terminal: terminal.in_folder(folder.path()),
            prelude: format!(
                "export PATH={programs}:$PATH CONTENT={content} SSL_CERT_FILE={}\n{RUKPAKCTL}\n",
                trusted.display()
            ),
            names,
            _folder: folder,
        };
        session.enter(&format!("cp -r {}/examples .", tools::workspace_folder().display())).await;
        for (page, here) in &session.names {
            let files = format!("find examples -type f -exec sed -i 's|{page}|{here}|g' {{}} +");
            session.terminal.enter(&files).await.unwrap_or_else(|error| panic!("{error:#}"));
        }
        session
    }

    /// Types a command that has to succeed.
    pub async fn enter(&self, command: &str) -> Vec<String> {
        let printed = self.typed(command).await;
        printed.of_success().unwrap_or_else(|error| panic!("{command}: {error:#}"))
    }

    /// Follows a page in order: blocks that show output are typed and compared, other blocks typed, but for those that hold one
    /// of the words `elsewhere`, which another test follows.
    pub async fn follow(&self, path: &str, elsewhere: &[&str]) {
        self.follow_those(path, |block| !elsewhere.iter().any(|words| block.text.contains(words))).await;
    }

    /// Follows the blocks with these words.
    pub async fn follow_only(&self, path: &str, words: &str) {
        self.follow_those(path, |block| block.text.contains(words)).await;
    }

    async fn follow_those(&self, path: &str, is_followed: impl Fn(&Block) -> bool) {
        let page = Page::read(path);
        let mut steps = Vec::new();
        for block in page.consoles().filter(|block| is_followed(block)) {
            if block.has_output() {
                steps.extend(block.steps());
            } else {
                steps.push(Step { line: block.line, command: block.text.clone(), output: Vec::new(), is_shown: false });
            }
        }
        assert!(!steps.is_empty(), "{path} has no commands");
        let mut outputs = Vec::new();
        for step in &steps {
            outputs.push(self.followed(path, step).await);
        }
        let pairs: Vec<_> = steps.iter().zip(&outputs).filter(|(step, _)| step.is_shown).collect();
        if is_written() {
            assert!(std::env::var_os("CI").is_none(), "{WRITE} is set, and pages are not written under CI");
            return page.write(&pairs);
        }
        let differences: Vec<String> = pairs
            .into_iter()
            .filter(|(step, here)| shown(&step.output) != shown(here))
            .map(|(step, here)| {
                let (command, page, here) = (&step.command, step.output.join("\n"), here.join("\n"));
                format!("line {}: $ {command}\n--- the page\n{page}\n--- here\n{here}", step.line)
            })
            .collect();
        assert!(differences.is_empty(), "{path} is not true any more:\n{}", differences.join("\n\n"));
    }

    /// Types the command of a step. What only looks or waits is typed again for a while until it prints what the page shows: one
    /// object may have changed, and what another says of it not yet.
    async fn followed(&self, path: &str, step: &Step) -> Vec<String> {
        let told = shown(&step.output);
        let patience = patience(&step.command);
        let end = Instant::now() + patience;
        if is_written() && patience == SETTLED {
            tokio::time::sleep(Duration::from_secs(2)).await; // what it should print is not known, so it gets time to come true
        }
        loop {
            let printed = self.typed(&step.command).await;
            let lines: Vec<String> = printed.lines.iter().map(|line| self.as_in_pages(line)).collect();
            // kubectl says nothing of what was gone before it asked.
            if printed.succeeded && lines.is_empty() && step.command.contains("wait --for=delete") {
                return step.output.clone();
            }
            let is_as_told = if step.is_shown && !is_written() { shown(&lines) == told } else { printed.succeeded };
            if is_as_told || Instant::now() > end {
                let (line, command) = (step.line, &step.command);
                assert!(step.is_shown || is_as_told, "{path}, line {line}: {command}\n{}", lines.join("\n"));
                return lines;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn typed(&self, command: &str) -> Printed {
        let command = self.names.iter().fold(command.to_owned(), |text, (page, here)| text.replace(page, here));
        let printed = self.terminal.enter(&format!("{}{command}", self.prelude)).await;
        printed.unwrap_or_else(|error| panic!("{command}: {error:#}"))
    }

    fn as_in_pages(&self, line: &str) -> String {
        self.names.iter().fold(line.to_owned(), |line, (page, here)| line.replace(here, page))
    }
}

/// Whether what commands print is written into the pages.
pub fn is_written() -> bool {
    std::env::var(WRITE).is_ok_and(|value| value == "write")
}

/// How long a command is typed again until it prints what the page shows.
fn patience(command: &str) -> Duration {
    let words: Vec<&str> = command.split(' ').collect();
    if words[0] == "kubectl" && words.contains(&"wait") {
        PATIENCE
    } else if words.contains(&"get")
        || (words.get(1) == Some(&"delete") && words.contains(&"--timeout"))
        || ["diff", "extension", "migrate", "status", "tree", "history", "why"].contains(words.get(1).unwrap_or(&""))
    {
        SETTLED
    } else {
        Duration::ZERO
    }
}
