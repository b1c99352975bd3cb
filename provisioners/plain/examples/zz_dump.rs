//! tmp
use std::sync::Arc;
use std::time::Instant;
fn main() {
    let files: Vec<_> =
        std::env::args().skip(1).filter_map(|f| std::fs::read(f).ok()).filter(|b| b.len() < 40_000).collect();
    let mut x: u64 = 88172645463325252;
    let mut rnd = move |n: usize| {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        (x % n as u64) as usize
    };
    let toks: [&[u8]; 24] = [
        b"[",
        b"]",
        b"{",
        b"}",
        b":",
        b"- ",
        b"\n",
        b"  ",
        b"'",
        b"\"",
        b"&a ",
        b"*a",
        b"<<: ",
        b"!!int ",
        b"|\n",
        b">-\n",
        b"? ",
        b"#",
        b"%",
        b"---\n",
        b"...\n",
        b"\t",
        b"\\",
        b"\xef\xbb\xbf",
    ];
    let start = Instant::now();
    let mut n = 0u64;
    let mut ok = 0u64;
    let mut worst = 0.0f64;
    while start.elapsed().as_secs() < 60 {
        let mut b = files[rnd(files.len())].clone();
        if b.is_empty() {
            continue;
        }
        for _ in 0..1 + rnd(8) {
            let at = rnd(b.len());
            match rnd(3) {
                0 => {
                    b.remove(at);
                    if b.is_empty() {
                        b.push(b'a');
                    }
                }
                1 => {
                    let t = toks[rnd(toks.len())];
                    b.splice(at..at, t.iter().copied());
                }
                _ => {
                    let to = (at + rnd(30)).min(b.len());
                    b.drain(at..to);
                    if b.is_empty() {
                        b.push(b'a');
                    }
                }
            }
        }
        let t = Instant::now();
        let mut w = Vec::new();
        if rukpak_plain::yaml::parse(&Arc::from("a.yaml"), &b, &rukpak_content::Limits::default(), &mut w).is_ok() {
            ok += 1;
        }
        let e = t.elapsed().as_secs_f64() / (b.len() as f64) * 1e6;
        if e > worst && b.len() > 2000 {
            worst = e;
            if e > 10.0 {
                std::fs::write(format!("/tmp/pl/worst-{}", n), &b).unwrap();
            }
            eprintln!("worst {e:.3} s/MB len {}", b.len());
        }
        n += 1;
    }
    println!("{n} inputs, {ok} ok");
    for (name, text) in [
        ("brackets", "[".repeat(8_000_000)),
        ("quotes", "a: 'x\n".repeat(1_000_000)),
        ("colons", "a: b: ".repeat(1_000_000)),
        ("flowcomma", format!("[{}]", "a,".repeat(400_000))),
        ("long plain", "a ".repeat(4_000_000)),
        ("keys", (0..300_000).map(|i| format!("k{i}: v\n")).collect()),
        ("dup", "a: 1\n".repeat(300_000)),
        ("sep", "---\n".repeat(2_000_000)),
        ("docs", "a\n---\n".repeat(1_000_000)),
        ("anchors", (0..300_000).map(|i| format!("- &a{i} x\n")).collect()),
        ("quest", "? ".repeat(1_000_000)),
        ("tags", "!a ".repeat(1_000_000)),
        ("lit", format!("a: |\n{}", "  x\n".repeat(2_000_000))),
        ("blanklit", format!("a: |\n{}", "\n".repeat(8_000_000))),
        ("spaces", " ".repeat(8_000_000)),
        ("dq", format!("a: \"{}\"", "\\n".repeat(4_000_000))),
        ("badquotes", format!("x:\n{}", "    a: 'x\n  b'\n".repeat(500_000))),
        ("json", format!("[{}]", "{\"a\":1},".repeat(400_000))),
        ("jsons", "{}".repeat(2_000_000)),
        ("percent", "%a\n".repeat(1_000_000)),
        (
            "mergebig",
            format!(
                "a: &a {{{}}}\nb:\n{}",
                (0..900).map(|i| format!("k{i}: 1, ")).collect::<String>(),
                "  <<: *a\n".repeat(900)
            ),
        ),
    ] {
        let t = Instant::now();
        let mut w = Vec::new();
        let r = rukpak_plain::yaml::parse(
            &Arc::from("a.yaml"),
            text.as_bytes(),
            &rukpak_content::Limits::default(),
            &mut w,
        );
        println!(
            "{name}: {:.2} s for {} bytes: {} warnings {}",
            t.elapsed().as_secs_f64(),
            text.len(),
            match r {
                Ok(d) => format!("ok {}", d.len()),
                Err(e) => e.to_string().chars().take(150).collect(),
            },
            w.len()
        );
    }
}
