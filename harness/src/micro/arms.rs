//! Two arms in turn: A B B A. Whatever drifts evenly during the four blocks adds the same to both.

use std::time::Duration;

/// One of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arm {
    /// Our kernels.
    Ours,
    /// MLX's own operation.
    Mlx,
}

/// The order of the blocks.
pub const ORDER: [Arm; 4] = [Arm::Ours, Arm::Mlx, Arm::Mlx, Arm::Ours];

/// The times of one arm.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Times {
    /// Every repetition, block after block.
    pub blocks: Vec<Vec<Duration>>,
}

impl Times {
    /// All repetitions.
    pub fn all(&self) -> impl Iterator<Item = Duration> {
        self.blocks.iter().flatten().copied()
    }
}

/// Measures a block of each arm in turn; only blocks of those arms that are `wanted`.
///
/// # Errors
/// The first that `block` gives.
pub fn alternate<E>(
    wanted: &[Arm],
    block: &mut dyn FnMut(Arm) -> Result<Vec<Duration>, E>,
) -> Result<[Times; 2], E> {
    let [mut ours, mut mlx] = [Times::default(), Times::default()];
    for arm in ORDER.into_iter().filter(|arm| wanted.contains(arm)) {
        let times = block(arm)?;
        match arm {
            Arm::Ours => ours.blocks.push(times),
            Arm::Mlx => mlx.blocks.push(times),
        }
    }
    Ok([ours, mlx])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks of one repetition each, every one a second longer than the one before.
    fn slower_and_slower(wanted: &[Arm]) -> (Vec<Arm>, [u64; 2]) {
        let mut order = Vec::new();
        let times = alternate(wanted, &mut |arm| {
            order.push(arm);
            Ok::<_, ()>(vec![Duration::from_secs(order.len() as u64)])
        });
        let times = times.unwrap_or_default();
        (order, times.map(|times| times.all().map(|time| time.as_secs()).sum()))
    }

    #[test]
    fn an_even_drift_adds_the_same_to_both() {
        assert_eq!(
            slower_and_slower(&[Arm::Mlx, Arm::Ours]),
            (vec![Arm::Ours, Arm::Mlx, Arm::Mlx, Arm::Ours], [5, 5])
        );
    }

    #[test]
    fn an_arm_that_is_not_wanted_is_left_out() {
        assert_eq!(slower_and_slower(&[Arm::Ours]), (vec![Arm::Ours, Arm::Ours], [3, 0]));
    }
}
