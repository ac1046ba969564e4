//! Measures the catalog on made-up folders: `speed [FOLDERS] [SHARDS] [TENSORS]` prints how long levels 0 to 2 and the check
//! take once the page cache is warm; `speed read FILE...` and `speed hash FILE...` how fast files are read, and read and
//! hashed.
//!
//! Only numbers of a release build mean anything.

#![expect(clippy::print_stdout, reason = "its output is what it is for")]

use std::error::Error;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use mlxcel_catalog::identity::{ContentCache, FileKey, WeightFile, hash_files, identify_all};
use mlxcel_catalog::integrity::check_all;
use mlxcel_catalog::listing::list;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.split_first() {
        Some((first, files)) if first == "read" => return read(files),
        Some((first, files)) if first == "hash" => return hash(files),
        _ => {}
    }
    let number = |at: usize, default: usize| arguments.get(at).map_or(Ok(default), |text| text.parse());
    let (folders, shards, tensors) = (number(0, 200)?, number(1, 8)?, number(2, 100)?);
    let root = std::env::temp_dir().join(format!("catalog-speed-{}", std::process::id()));
    for folder in 0..folders {
        make(&root.join(format!("model-{folder:03}")), folder, shards, tensors)?;
    }
    let outcome = measure(&root);
    fs::remove_dir_all(&root)?;
    outcome
}

fn measure(root: &Path) -> Result<(), Box<dyn Error>> {
    let (found, faults) = list(&[root]);
    if !faults.is_empty() {
        return Err(format!("{faults:?}").into());
    }
    let dirs: Vec<PathBuf> = found.iter().map(|found| found.path.clone()).collect();
    for level in 0..=3 {
        let time = best(|| {
            let identities = identify_all(&dirs, level, &mut ContentCache::in_memory(), &|_| ());
            identities.iter().all(Result::is_ok)
        })?;
        println!("level {level}: {:.1} ms", time.as_secs_f64() * 1e3);
    }
    let time = best(|| check_all(&found, &|_| None).iter().all(|report| report.faults.is_empty()))?;
    println!("check: {:.1} ms", time.as_secs_f64() * 1e3);
    Ok(())
}

/// The shortest of several runs, the first of which warms the caches.
fn best(run: impl Fn() -> bool) -> Result<Duration, Box<dyn Error>> {
    let mut best = Duration::MAX;
    for _ in 0..6 {
        let begun = Instant::now();
        if !run() {
            return Err("a folder has a fault".into());
        }
        best = best.min(begun.elapsed());
    }
    Ok(best)
}

fn make(folder: &Path, seed: usize, shards: usize, tensors: usize) -> std::io::Result<()> {
    fs::create_dir_all(folder)?;
    let config = format!(
        r#"{{"model_type":"llama","architectures":["LlamaForCausalLM"],"hidden_size":{},"rope_theta":10000.0,"quantization":{{"bits":4,"group_size":64}}}}"#,
        seed + 1
    );
    fs::write(folder.join("config.json"), config)?;
    for shard in 1..=shards {
        let entries: Vec<String> = (0..tensors)
            .map(|tensor| {
                let (begin, end) = (tensor * 64, tensor * 64 + 64);
                format!(
                    r#""model.layers.{shard}.block.{tensor}.self_attn.q_proj.weight":{{"dtype":"F16","shape":[4,8],"data_offsets":[{begin},{end}]}}"#
                )
            })
            .collect();
        let header = format!("{{{}}}", entries.join(","));
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(header.as_bytes());
        bytes.resize(bytes.len() + tensors * 64, 1);
        fs::write(folder.join(format!("model-{shard:05}-of-{shards:05}.safetensors")), bytes)?;
    }
    Ok(())
}

fn read(files: &[String]) -> Result<(), Box<dyn Error>> {
    let begun = Instant::now();
    let mut bytes = 0;
    let mut buffer = vec![0; 4 << 20];
    for file in files {
        let mut file = File::open(file)?;
        loop {
            let read = file.read(&mut buffer)?;
            if read == 0 {
                break;
            }
            bytes += read as u64;
        }
    }
    println!("read: {:.0} MB/s", bytes as f64 / 1e6 / begun.elapsed().as_secs_f64());
    Ok(())
}

fn hash(files: &[String]) -> Result<(), Box<dyn Error>> {
    let mut weight_files = Vec::new();
    let mut bytes = 0;
    for file in files {
        let key = FileKey::of(&fs::metadata(file)?);
        bytes += key.bytes;
        weight_files.push(WeightFile { file_name: file.clone(), path: file.into(), key });
    }
    let files: Vec<&WeightFile> = weight_files.iter().collect();
    let begun = Instant::now();
    let hashes = hash_files(&files, &mut ContentCache::in_memory(), &|_| ());
    let seconds = begun.elapsed().as_secs_f64();
    if hashes.values().any(Result::is_err) {
        return Err("a file cannot be read".into());
    }
    println!("hashed: {:.0} MB/s", bytes as f64 / 1e6 / seconds);
    Ok(())
}
