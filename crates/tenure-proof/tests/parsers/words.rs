//! The words of random command lines: a grammar that usually fits, and words that fit nowhere.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use tenure_testkit::Random;

/// The kind of value that an option or an argument takes.
#[derive(Debug, Clone, Copy)]
enum Want {
    /// An option without a value.
    None,
    File,
    Journal,
    Directory,
    Leased,
    Lock,
    Json,
    Patch,
    Filter,
    Pointer,
    Duration,
    /// An option that has to be there, with its value.
    Ttl,
    Reason,
    Number,
    Code,
    Guard,
    Version,
    Text,
    Kind,
    /// A name and a text, a name and JSON.
    Named,
    NamedJson,
}

type Options = &'static [(&'static str, Want)];

const WRITE: Options = &[
    ("--fence", Want::Number),
    ("--guard", Want::Guard),
    ("--no-sync", Want::None),
    ("--op-id", Want::Text),
    ("--label", Want::Text),
    ("--lock-file", Want::Lock),
    ("--allow-network", Want::None),
    ("--wait", Want::Duration),
];
const DOC: Options = &[("--if-version", Want::Version), ("--break-link", Want::None)];
const FILTER: Options = &[("--arg", Want::Named), ("--argjson", Want::NamedJson)];
const SHOW: Options =
    &[("-r", Want::None), ("--compact", Want::None), ("-e", Want::None), ("--raw", Want::None)];
const INIT: Options = &[("--init", Want::Json)];
const RULES: Options = &[
    ("--union", Want::Pointer),
    ("--max", Want::Pointer),
    ("--min", Want::Pointer),
    ("--sum", Want::Pointer),
    ("--last", Want::Pointer),
];
const LINES: Options = &[("--header", Want::Json), ("--json-lines", Want::None)];
const RANGE: Options = &[("--from", Want::Number), ("--limit", Want::Number)];
const KEEP: Options = &[("--from", Want::Number), ("--keep", Want::Filter)];
const GRANT: Options =
    &[("--owner", Want::Text), ("--label", Want::Text), ("--allow-network", Want::None)];
const TOKEN: Options = &[("--token", Want::Text), ("--token-file", Want::File)];
const HOLD: Options =
    &[("--label", Want::Text), ("--lock-file", Want::Lock), ("--wait", Want::Duration)];
const RUN: Options = &[("--shared", Want::None), ("--busy-code", Want::Code)];
const PRUNE: Options = &[
    ("--max-age", Want::Duration),
    ("--max-count", Want::Number),
    ("--keep", Want::Text),
    ("--dry-run", Want::None),
    ("--kind", Want::Kind),
];
const KIND: Options = &[("--kind", Want::Kind)];
const WHO: Options = &[("--all", Want::None), ("--events", Want::None)];

/// One command: its verb, its arguments, its options. Commands that run until they are ended are
/// left out: `watch`, `follow`, `demo`, `torture`, `bench`.
struct Rule {
    verb: &'static [&'static str],
    takes: &'static [Want],
    options: &'static [Options],
}

const fn rule(
    verb: &'static [&'static str],
    takes: &'static [Want],
    options: &'static [Options],
) -> Rule {
    Rule { verb, takes, options }
}

const RULES_OF_ALL: &[Rule] = &[
    rule(&["doc", "get"], &[Want::File, Want::Filter], &[FILTER, SHOW]),
    rule(&["doc", "set"], &[Want::File, Want::Json], &[WRITE, DOC]),
    rule(&["doc", "update"], &[Want::File, Want::Filter], &[WRITE, DOC, FILTER, INIT]),
    rule(&["doc", "merge"], &[Want::File, Want::Json], &[WRITE, DOC, RULES]),
    rule(&["doc", "patch"], &[Want::File, Want::Patch], &[WRITE, DOC]),
    rule(&["doc", "version"], &[Want::File], &[]),
    rule(&["doc", "restore"], &[Want::File], &[WRITE, DOC]),
    rule(&["journal", "append"], &[Want::Journal, Want::Json, Want::Text], &[WRITE, LINES]),
    rule(&["journal", "read"], &[Want::Journal], &[RANGE]),
    rule(&["journal", "verify"], &[Want::Journal], &[]),
    rule(&["journal", "repair"], &[Want::Journal], &[WRITE]),
    rule(&["journal", "rotate"], &[Want::Journal], &[WRITE]),
    rule(&["journal", "compact"], &[Want::Journal], &[WRITE, KEEP, FILTER]),
    rule(&["lease", "acquire"], &[Want::Leased, Want::Ttl], &[GRANT, TOKEN]),
    rule(&["lease", "renew"], &[Want::Leased, Want::Ttl], &[TOKEN]),
    rule(&["lease", "release"], &[Want::Leased], &[TOKEN]),
    rule(&["lease", "show"], &[Want::Leased], &[]),
    rule(&["lease", "take-over"], &[Want::Leased, Want::Ttl, Want::Reason], &[GRANT]),
    rule(&["lease", "hold"], &[Want::Leased, Want::Ttl], &[GRANT, RUN]),
    rule(&["run"], &[Want::File], &[HOLD, RUN]),
    rule(&["collection", "list"], &[Want::Directory], &[KIND]),
    rule(&["collection", "prune"], &[Want::Directory], &[PRUNE, WRITE]),
    rule(&["collection", "split"], &[Want::File, Want::Directory], &[WRITE]),
    rule(&["who"], &[Want::Directory], &[WHO]),
    rule(&["doctor"], &[Want::Directory], &[&[("--fix", Want::None)]]),
    rule(&["completions"], &[Want::Text], &[]),
    rule(&["man"], &[Want::Directory], &[]),
    rule(&["no-such-verb"], &[], &[]),
    rule(&[], &[Want::Text], &[]),
];

/// Values of one kind: valid ones, and invalid ones.
type Values = (&'static [&'static str], &'static [&'static str]);

const FILES: Values = (&["a.json", "b.json", "new.json"], &["bad.json", "none/x", "dir", ""]);
const JOURNALS: Values = (&["log.jsonl", "new.jsonl"], &["bad.json", "none.jsonl", "dir", ""]);
const DIRECTORIES: Values = (&["dir", ".", "keys"], &["..", "none", "a.json", ""]);
const LEASED: Values = (&["lease", "session", "dir/x"], &["", "a.json/x"]);
const LOCKS: Values = (&["lock", "dir/lock"], &["dir", "a.json"]);
const JSONS: Values = (
    &["{\"a\":1}", "{\"set\":[1,2],\"max\":3}", "{\"a\":null,\"n\":-1e400}", "[]", "true"],
    &["{\"a\":1,\"a\":2}", "\"x", "-1", "", "-", "{\"sum\":\"x\"}"],
);
const PATCHES: Values = (
    &[
        "[{\"op\":\"add\",\"path\":\"/a\",\"value\":1}]",
        "[{\"op\":\"test\",\"path\":\"/n\",\"value\":2}]",
        "[]",
    ],
    &["[{\"op\":\"remove\",\"path\":\"/~2\"}]", "[{\"op\":\"add\"}]", "{}"],
);
const FILTERS: Values = (
    &[
        ".",
        ".a",
        ".n",
        "empty",
        "false",
        "length",
        "limit(3; repeat(1))",
        "\"\\(1)\"",
        ". as $y | $y",
    ],
    &[
        ".n += 1",
        ".[",
        "def f: f; 1",
        "reduce .[] as $x (0; . + $x)",
        "input",
        "$ENV",
        "$x",
        ".set[$x]",
        "@base64d",
        "..|..",
        "error(\"x\")",
        "error(\"a\\nb\")",
        "1/0",
        "halt",
        "$seq > 1",
        "$__loc__",
    ],
);
const POINTERS: Values = (&["/set", "/max", "/a/b", "/~0~1", "/"], &["", "/~2", "a", "/set"]);
const DURATIONS: Values =
    (&["0", "1ms", "5ms"], &["soon", "99999999999999d", "-1s", "1e3", "1y", "", "367d"]);
const TIMES: Values = (&["1ms", "20ms", "1m"], &["0", "0s", "forever", "367d", "-1s", ""]);
const NUMBERS: Values =
    (&["0", "1", "2", "18446744073709551615"], &["-1", "18446744073709551616", "x", "0x1"]);
/// 0 is left out: a command that is asked to exit with 0 if busy does so, without an error.
const CODES: Values = (&["75", "6"], &["256", "-1", "x", ""]);
const GUARDS: Values = (&["lease=1", "a.json=1", "none/x=3"], &["=1", "a=b=7", "lease=x", "a"]);
const VERSIONS: Values =
    (&["1-0123456789abcdef0123456789abcdef", "0-0", "x"], &["", "a b", "\u{e9}"]);
const TEXTS: Values = (
    &["x", "%s%n", "$(true)", "bash", "0123456789abcdef0123456789abcdef", "{\"a\":1}"],
    &["", "a\nb", "\u{1F600}", "\u{202e}", "not json"],
);
const KINDS: Values = (&["documents", "journals"], &["neither", ""]);
const NAMES: Values = (&["x", "seq"], &["", "$x", "1", "__loc__"]);

/// Anywhere, whatever is expected there.
const ODD: &[&str] = &[
    "--",
    "-",
    "-e",
    "--json",
    "--help",
    "--version",
    "--store",
    "--unknown",
    "-x",
    "--fence=",
    "--wait=0",
    "--arg",
    "--union",
    "--init",
    "--guard",
    "..",
    "*",
    "~",
    "@file",
];

/// Bytes that are no text, where text is expected.
const NO_TEXT: &[&[u8]] = &[
    b"\xff",
    b"-\xff",
    b"--\xff",
    b"--label=\xff",
    b"--token=\xc3\x28",
    b"--if-version=\x80",
    b"a\xfe.json",
    b"{\"a\":\"\xff\"}",
    b".a\xf0\x9f",
    b"\xed\xa0\x80",
];

/// Usually a valid one, now and then an invalid one.
fn pick(random: &mut Random, (good, bad): Values) -> &'static str {
    let from = if random.index(8) == 0 { bad } else { good };
    from[random.index(from.len())]
}

/// The words for `want`.
fn wanted(random: &mut Random, want: Want) -> Vec<OsString> {
    let from = match want {
        Want::None => return Vec::new(),
        Want::File => FILES,
        Want::Journal => JOURNALS,
        Want::Directory => DIRECTORIES,
        Want::Leased => LEASED,
        Want::Lock => LOCKS,
        Want::Json => JSONS,
        Want::Patch => PATCHES,
        Want::Filter => FILTERS,
        Want::Pointer => POINTERS,
        Want::Duration => DURATIONS,
        Want::Ttl => return vec!["--ttl".into(), pick(random, TIMES).into()],
        Want::Reason => return vec!["--reason".into(), pick(random, TEXTS).into()],
        Want::Number => NUMBERS,
        Want::Code => CODES,
        Want::Guard => GUARDS,
        Want::Version => VERSIONS,
        Want::Text => TEXTS,
        Want::Kind => KINDS,
        Want::Named => {
            return vec![pick(random, NAMES).into(), pick(random, TEXTS).into()];
        }
        Want::NamedJson => {
            return vec![pick(random, NAMES).into(), pick(random, JSONS).into()];
        }
    };
    vec![pick(random, from).into()]
}

/// Any bytes that an argument can have; often none at all. No slash, so that no file is made elsewhere.
fn raw(random: &mut Random) -> OsString {
    let byte = |random: &mut Random| match random.index(256).to_le_bytes()[0] {
        0 | b'/' => b'-',
        other => other,
    };
    OsString::from_vec((0..random.index(12)).map(|_| byte(random)).collect())
}

/// An unexpected word.
fn odd(random: &mut Random) -> OsString {
    match random.index(4) {
        0 => raw(random),
        1 => OsStr::from_bytes(NO_TEXT[random.index(NO_TEXT.len())]).to_owned(),
        _ => ODD[random.index(ODD.len())].into(),
    }
}

/// The next command line: a verb, its arguments and some of its options, now and then with a word
/// left out, or one too many.
pub(crate) fn line(random: &mut Random) -> Vec<OsString> {
    let rule = &RULES_OF_ALL[random.index(RULES_OF_ALL.len())];
    let mut words: Vec<OsString> = rule.verb.iter().map(OsString::from).collect();
    for want in rule.takes {
        words.extend(wanted(random, *want));
    }
    for _ in 0..random.index(4) {
        if rule.options.is_empty() {
            break;
        }
        let options = rule.options[random.index(rule.options.len())];
        let (name, want) = options[random.index(options.len())];
        words.push(name.into());
        words.extend(wanted(random, want));
    }
    if random.index(8) == 0 {
        let at = random.index(words.len() + 1);
        words.insert(at, odd(random));
    }
    if random.index(16) == 0 && words.len() > 1 {
        words.remove(1 + random.index(words.len() - 1));
    }
    if random.index(4) == 0 {
        words.insert(0, "--json".into());
    }
    if rule.verb == ["run"] || rule.verb == ["lease", "hold"] {
        let command = ["true", "/", "no-such-command"][random.index(3)];
        words.extend(["--", command].map(OsString::from));
    }
    words
}
