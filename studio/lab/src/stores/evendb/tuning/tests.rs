//! Settings as text and as code, and that each of them reaches EvenDB.

use super::*;

#[test]
fn settings_come_back_as_text_and_as_code() {
    let text = "chunk-bytes=1048576 compression=lz4 row-cache=off memory-share=0.5";
    let tuning: Tuning = text.parse().unwrap();
    assert_eq!(tuning.to_string(), text);
    assert_eq!(tuning.budget(64 << 20), 32 << 20);
    assert_eq!(
        tuning.code(64 << 20),
        "Options::new().memory_budget(32 << 20).compression(Compression::Lz4)\
         .advanced(|all| all.chunk_bytes(1048576).row_cache(false))"
    );
    assert_eq!(
        Tuning::new().code(1 << 20),
        "Options::new().memory_budget(1 << 20)"
    );
}

#[test]
fn what_is_no_setting_is_told() {
    let wrong = |text: &str| text.parse::<Tuning>().unwrap_err();
    assert_eq!(wrong("munks"), TuningError::NoValue("munks".to_owned()));
    assert_eq!(wrong("monks=on"), TuningError::Unknown("monks".to_owned()));
    assert_eq!(wrong("munks=on munks=off"), TuningError::Twice("munks"));
    for text in [
        "munks=yes",
        "chunk-bytes=1MiB",
        "chunk-bytes=-1",
        "compression=zip",
        "row-cache-share=0",
        "memory-share=1.5",
        "space-amplification=inf",
    ] {
        assert!(
            matches!(wrong(text), TuningError::WrongValue { .. }),
            "{text}"
        );
    }
    assert!(wrong("monks=on").to_string().contains("munks"));
}

#[test]
fn two_that_choose_different_settings_go_together() {
    let of = |text: &str| text.parse::<Tuning>().unwrap();
    let both = of("munks=off").and(&of("block-bytes=1024")).unwrap();
    assert_eq!(both, of("munks=off block-bytes=1024"));
    assert_eq!(of("munks=off").and(&of("munks=on")), None);
}

#[test]
fn the_layout_decides_which_settings_there_are() {
    let of = |text: &str| text.parse::<Tuning>().unwrap();
    let guards = of("layout=guards max-files-per-guard=4 compression=lz4");
    assert_eq!(guards.layout(), Layout::Guards);
    assert_eq!(guards.contradiction(), None);
    assert_eq!(
        guards.code(64 << 20),
        "Options::new().memory_budget(64 << 20).layout(Layout::Guards).compression(Compression::Lz4)\
         .advanced(|all| all.guards(|guards| guards.max_files_per_guard(4)))"
    );
    assert_eq!(of("munks=off").layout(), Layout::Chunks);
    for (text, what) in [
        (
            "layout=guards munks=off",
            "the layout guards has no munks=off",
        ),
        (
            "max-files-per-guard=1",
            "the layout chunks has no max-files-per-guard=1",
        ),
    ] {
        assert_eq!(of(text).contradiction().as_deref(), Some(what));
    }
    assert_eq!(of("layout=guards").and(&of("munks=off")), None);
    let both = of("layout=guards").and(&of("block-bytes=1024")).unwrap();
    assert_eq!(both.layout(), Layout::Guards);
}

#[test]
fn every_setting_opens_a_database() {
    let values = [
        "layout=guards",
        "memory-share=0.5",
        "compression=lz4",
        "space-amplification=2",
        "chunk-bytes=262144",
        "block-bytes=1024",
        "filter-bits-per-key=12",
        "munks=off",
        "row-cache=off",
        "row-cache-share=0.5",
        "values-apart-from=1024",
        "max-files-per-guard=4",
    ];
    for (setting, text) in TABLE.iter().zip(values) {
        let tuning: Tuning = text.parse().unwrap();
        assert!(
            tuning.sets(setting.name),
            "{text} is not of {}",
            setting.name
        );
        let before = format!("{:?}", Options::new());
        let options = tuning.applied(Options::new());
        let is_same = before == format!("{options:?}");
        // The share is no option of EvenDB.
        assert_eq!(is_same, setting.name == MEMORY_SHARE, "{text}");
        let directory = tempfile::tempdir().unwrap();
        options.open(directory.path()).unwrap();
    }
}
