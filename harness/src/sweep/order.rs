//! In which order the folders of a sweep are measured.
//!
//! Alphabetical order ties a model's family to the temperature of the host: folders are shuffled within classes of size
//! instead, smallest class first, by a seed that is kept. A folder that another one stands for follows that one.

use super::dedup::Dedup;
use super::plan::{Action, Place};
use crate::cli::Order;

/// The places in the order of measurement.
pub(super) fn order(places: &[Place], dedup: &Dedup, by: Order, seed: u64) -> Vec<usize> {
    let mut leaders: Vec<usize> = (0..places.len()).filter(|at| !dedup.is_alias(*at)).collect();
    if by == Order::Size {
        let mut random = Random(seed);
        // Each place draws once, in the order of names, so that the order follows from the seed alone.
        let mut keyed: Vec<(u32, u64, usize)> =
            leaders.into_iter().map(|at| (places.get(at).map_or(0, size_class), random.next(), at)).collect();
        keyed.sort_unstable();
        leaders = keyed.into_iter().map(|(_, _, at)| at).collect();
    } else {
        return (0..places.len()).collect();
    }
    leaders.iter().flat_map(|leader| dedup.members_behind(*leader)).collect()
}

/// Checkpoints of one class differ in size by less than a factor of four; what is not measured comes first.
fn size_class(place: &Place) -> u32 {
    match &place.action {
        Action::Measure(folder) => folder.weight_bytes().checked_ilog2().map_or(1, |log| log / 2 + 1),
        Action::Record(..) => 0,
    }
}

/// SplitMix64 (Steele, Lea and Flood, 2014): good enough to shuffle, and the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Dedup as Level;
    use std::fs;
    use std::path::Path;

    type Outcome = Result<(), Box<dyn std::error::Error>>;

    fn checkpoint(root: &Path, name: &str, bytes: usize) -> std::io::Result<()> {
        let folder = root.join(name);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("config.json"), format!(r#"{{"model_type":"llama","name":"{name}"}}"#))?;
        let header = format!(r#"{{"a":{{"dtype":"U8","shape":[{bytes}],"data_offsets":[0,{bytes}]}}}}"#);
        let mut file = (header.len() as u64).to_le_bytes().to_vec();
        file.extend(header.into_bytes());
        file.resize(file.len() + bytes, 0);
        fs::write(folder.join("model.safetensors"), file)
    }

    #[test]
    fn the_order_is_by_size_class_and_shuffled_within_by_the_seed() -> Outcome {
        let root = tempfile::tempdir()?;
        for name in ["a", "b", "c", "d", "e", "f"] {
            checkpoint(root.path(), name, 70)?;
            checkpoint(root.path(), &format!("{name}-large"), 7_000)?;
        }
        fs::create_dir(root.path().join("zz"))?;
        let places = super::super::plan::all(root.path())?;
        let dedup = Dedup::of(&places, Level::None);
        let names = |seed| -> Vec<String> {
            let order = order(&places, &dedup, Order::Size, seed);
            order.iter().map(|at| places[*at].model.clone()).collect()
        };
        let first = names(1);
        assert_eq!(first.len(), 13);
        assert_eq!(first[0], "zz");
        assert!(first[1..7].iter().all(|name| !name.contains("large")), "{first:?}");
        assert_eq!(first, names(1));
        assert!((2..9).any(|seed| names(seed) != first));
        let by_name = order(&places, &dedup, Order::Name, 1);
        assert_eq!(by_name, (0..13).collect::<Vec<_>>());
        Ok(())
    }

    #[test]
    fn an_alias_follows_the_folder_that_stands_for_it() -> Outcome {
        let root = tempfile::tempdir()?;
        for (name, bytes) in [("a", 70), ("b", 7_000), ("c", 70)] {
            checkpoint(root.path(), name, bytes)?;
        }
        std::os::unix::fs::symlink("b", root.path().join("d"))?;
        std::os::unix::fs::symlink("a", root.path().join("e"))?;
        let places = super::super::plan::all(root.path())?;
        let dedup = Dedup::of(&places, Level::Config);
        for seed in 0..8 {
            let order = order(&places, &dedup, Order::Size, seed);
            let at = |place: usize| order.iter().position(|at| *at == place);
            assert_eq!((at(3), at(4)), (at(1).map(|at| at + 1), at(0).map(|at| at + 1)), "{order:?}");
        }
        Ok(())
    }
}
