//! Temporary.
use evendb::Options;
use evendb_lab::experiments::{pauses, space};
use evendb_lab::stores::evendb::EvenDbStore;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let num = |name: &str, default: f64| -> f64 {
        args.iter().position(|a| a == name).map_or(default, |at| args[at + 1].parse().unwrap())
    };
    let dir = std::path::PathBuf::from(&args[2]);
    let _ = std::fs::remove_dir_all(&dir);
    let mut options = Options::new().memory_budget((num("--mem", 512.0) as u64) << 20);
    if args.iter().any(|a| a == "--workers") { options = options.workers(num("--workers", 1.0) as usize); }
    let store = EvenDbStore::open(&dir, options, "").unwrap();
    match &*args[1] {
        "pauses" => {
            let settings = pauses::Settings {
                data_bytes: (num("--size", 1024.0) as u64) << 20,
                times: num("--times", 3.0),
                writers: num("--writers", 2.0) as usize,
                readers: num("--readers", 1.0) as usize,
                scanners: num("--scanners", 1.0) as usize,
                ..pauses::Settings::default()
            };
            print!("{}", pauses::run(&store, &settings).unwrap());
        }
        _ => {
            let settings = space::Settings {
                data_bytes: (num("--size", 1024.0) as u64) << 20,
                times: num("--times", 3.0),
                delete_half: !args.iter().any(|a| a == "--keep"),
                ..space::Settings::default()
            };
            print!("{}", space::run(&store, &dir, &settings, &mut |s| eprintln!("{s}")).unwrap());
        }
    }
    println!("{}", store.database().stats());
    drop(store);
    let _ = std::fs::remove_dir_all(&dir);
}
