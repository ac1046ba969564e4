//! Key-value caches: what each layer keeps of the positions it has seen, and the mask that goes with it.

mod full;
mod joined;
mod starts;
mod window;

use crate::kernels::cpu::Sight;
use crate::kernels::mlx::{Result, slice};
use full::FullCache;
pub(crate) use full::range;
use joined::JoinedCache;
use mlx_rs::{Array, ops};
pub(crate) use starts::Starts;
use window::WindowCache;

/// How far back a layer looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CacheKind {
    /// At every earlier position.
    Full,
    /// At the last `0`-th many positions, its own included.
    Window(i32),
}

/// One layer's keys and values.
#[derive(Debug)]
pub(crate) enum Cache {
    Full(FullCache),
    Joined(JoinedCache),
    Window(WindowCache),
}

impl Cache {
    /// `joined` says whether MLX's own operations will fill it, which write keys and values into one buffer.
    pub(crate) fn new(kind: CacheKind, joined: bool) -> Self {
        match kind {
            CacheKind::Full if joined => Self::Joined(JoinedCache::default()),
            CacheKind::Full => Self::Full(FullCache::default()),
            CacheKind::Window(window) => Self::Window(WindowCache::new(window)),
        }
    }

    /// How many positions have been seen: the position of the next token.
    pub(crate) fn offset(&self) -> i32 {
        match self {
            Self::Full(cache) => cache.offset(),
            Self::Joined(cache) => cache.offset(),
            Self::Window(cache) => cache.offset(),
        }
    }

    /// Appends `[batch, heads, length, head_dim]` and returns all keys and values that attention is to see.
    pub(crate) fn update(&mut self, keys: Array, values: Array) -> Result<(Array, Array)> {
        match self {
            Self::Full(cache) => cache.update(&keys, &values),
            Self::Joined(cache) => cache.update(&keys, &values),
            Self::Window(cache) => cache.update(keys, values),
        }
    }

    /// The same for keys before values in one array of `[1, 2 · heads, length, head_dim]`.
    pub(crate) fn append(&mut self, both: &Array) -> Result<(Array, Array)> {
        if let Self::Joined(cache) = self {
            return cache.append(both);
        }
        let (shape, heads) = (both.shape(), both.dim(1) / 2);
        let keys = slice(both, &[0; 4], &[both.dim(0), heads, both.dim(2), both.dim(3)])?;
        let values = slice(both, &[0, heads, 0, 0], shape)?;
        self.update(keys, values)
    }

    /// What the last position alone sees of the keys and values that [`Cache::update`] returned.
    pub(crate) fn seen_by_last(&self, keys: Array, values: Array) -> Result<(Array, Array)> {
        match self {
            Self::Full(_) | Self::Joined(_) => Ok((keys, values)),
            Self::Window(cache) => {
                let length = keys.dim(2);
                let start = (length - cache.window()).max(0);
                Ok((full::range(&keys, start, length)?, full::range(&values, start, length)?))
            }
        }
    }

    /// The arrays held, to be evaluated between chunks of a prompt.
    pub(crate) fn arrays(&self) -> Vec<&Array> {
        match self {
            Self::Full(cache) => cache.arrays(),
            Self::Joined(cache) => cache.arrays(),
            Self::Window(cache) => cache.arrays(),
        }
    }

    pub(crate) fn kind(&self) -> CacheKind {
        match self {
            Self::Full(_) | Self::Joined(_) => CacheKind::Full,
            Self::Window(cache) => CacheKind::Window(cache.window()),
        }
    }

    /// The mask for `length` new positions.
    fn mask(&self, length: i32) -> Result<Mask> {
        match self {
            _ if length == 1 => Ok(Mask::None),
            Self::Full(_) | Self::Joined(_) => Ok(Mask::Causal),
            Self::Window(cache) => {
                let earlier = cache.kept_for_next_chunk();
                if earlier + length <= cache.window() {
                    return Ok(Mask::Causal);
                }
                let window = cache.window();
                Ok(Mask::Window { window, mask: window_mask(length, earlier, window)? })
            }
        }
    }
}

/// Which keys each query may attend to.
#[derive(Debug)]
pub(crate) enum Mask {
    /// All of them: one query at the last position.
    None,
    /// Those up to its own position.
    Causal,
    /// Of those the last `window`.
    Window {
        /// How many, the query's own position included.
        window: i32,
        /// The same as `[queries, keys]`, true where allowed.
        mask: Array,
    },
}

impl From<&Mask> for Sight {
    fn from(mask: &Mask) -> Self {
        match mask {
            Mask::None => Self::All,
            Mask::Causal => Self::Causal,
            Mask::Window { window, .. } => Self::Window(usize::try_from(*window).unwrap_or(0)),
        }
    }
}

/// What the layers of one forward pass share: a mask for each kind of cache, and where the pass starts.
pub(crate) struct Masks {
    kinds: Vec<(CacheKind, Mask)>,
    starts: Starts,
}

impl Mask {
    /// The masks for `length` new positions. All caches of a kind have seen the same positions.
    pub(crate) fn per_kind(length: i32, caches: &[Cache]) -> Result<Masks> {
        let mut masks: Vec<(CacheKind, Self)> = Vec::with_capacity(2);
        for cache in caches {
            let kind = cache.kind();
            if masks.iter().all(|(known, _)| *known != kind) {
                masks.push((kind, cache.mask(length)?));
            }
        }
        Ok(Masks { kinds: masks, starts: Starts::at(caches.first().map_or(0, Cache::offset)) })
    }
}

impl Masks {
    pub(crate) fn of(&self, kind: CacheKind) -> &Mask {
        self.kinds.iter().find(|(known, _)| *known == kind).map_or(&Mask::None, |(_, mask)| mask)
    }

    pub(crate) fn starts(&self) -> &Starts {
        &self.starts
    }
}

/// `[length, earlier + length]`: query `i` sees key `j` when `j <= earlier + i < j + window`.
fn window_mask(length: i32, earlier: i32, window: i32) -> Result<Array> {
    let keys = ops::arange::<i32, i32>(0, earlier + length, 1)?.expand_dims(0)?;
    let queries = ops::arange::<i32, i32>(earlier, earlier + length, 1)?.expand_dims(1)?;
    let seen = keys.le(&queries)?;
    let near = queries.lt(keys.add(Array::from_int(window))?)?;
    seen.logical_and(near)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_mask_shows_each_query_exactly_its_window() {
        let mask = window_mask(4, 2, 3).expect("OK because the shapes are small");
        let rows: Vec<Vec<u8>> = mask
            .as_type::<u8>()
            .and_then(|mask| mask.eval().map(|()| mask))
            .map(|mask| mask.as_slice::<u8>().chunks(6).map(<[u8]>::to_vec).collect())
            .expect("OK because a mask converts to bytes");
        assert_eq!(
            rows,
            [[1, 1, 1, 0, 0, 0], [0, 1, 1, 1, 0, 0], [0, 0, 1, 1, 1, 0], [0, 0, 0, 1, 1, 1]]
                .map(|row| row.to_vec())
        );
    }
}
