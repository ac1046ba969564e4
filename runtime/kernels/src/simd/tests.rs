//! Every operation of every instruction set that this processor has, against plain arithmetic on one number at a time.
#![expect(clippy::float_cmp, reason = "the numbers are exact, or their bits are compared")]
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "lanes and made-up numbers are small"
)]

use super::{Isa, Kernel, MAX_LANES, Simd};
use half::{bf16, f16};

/// Runs a check on every instruction set.
#[expect(clippy::print_stderr, reason = "shown with a failure: the last one named is the one that failed")]
fn on_each<K: Kernel + Copy>(check: K) {
    for &isa in Isa::available() {
        eprintln!("{isa}");
        // SAFETY: the checks give pointers to arrays of their own, of as many elements as are read or written.
        unsafe { isa.run(check) };
    }
}

unsafe fn floats<S: Simd>(value: S::F) -> Vec<f32> {
    let mut floats = [0.0; MAX_LANES];
    unsafe { S::store(floats.as_mut_ptr(), value) };
    floats[..S::LANES].to_vec()
}

/// Equal bits, or neither a number.
fn same(a: f32, b: f32) -> bool {
    a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
}

/// A checker's numbers: random bits, so of every size, and what lies between 16-bit floats.
fn sample() -> Vec<f32> {
    let mut state = 1_u32;
    let random = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f32::from_bits(state.rotate_left(13))
    });
    let mut floats: Vec<f32> = random.take(1 << 16).collect();
    for bits in 0..=u16::MAX {
        // Each 16-bit float, what lies halfway to the next, and the floats beside that.
        let of_f16 = f16::from_bits(bits).to_f32().to_bits();
        let of_bf16 = u32::from(bits) << 16;
        for (bits, half) in [(of_f16, 1 << 12), (of_bf16, 1 << 15)] {
            floats
                .extend([0, half - 1, half, half + 1].map(|above| f32::from_bits(bits.wrapping_add(above))));
        }
    }
    let special =
        [0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 65504.0, 65520.0, 65519.0, f32::MAX];
    floats.extend(special);
    floats.resize(floats.len().next_multiple_of(MAX_LANES), 1.0);
    floats
}

#[derive(Clone, Copy)]
struct Widening;

impl Kernel for Widening {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let all: Vec<u16> = (0..=u16::MAX).collect();
        for bits in all.chunks_exact(S::LANES) {
            let [of_f16, of_bf16] = unsafe {
                [floats::<S>(S::load_f16(bits.as_ptr())), floats::<S>(S::load_bf16(bits.as_ptr()))]
            };
            for ((bits, of_f16), of_bf16) in bits.iter().zip(of_f16).zip(of_bf16) {
                assert!(same(of_f16, f16::from_bits(*bits).to_f32()), "f16 {bits:#x}: {of_f16}");
                assert!(same(of_bf16, bf16::from_bits(*bits).to_f32()), "bf16 {bits:#x}: {of_bf16}");
            }
        }
    }
}

#[test]
fn every_16_bit_float_is_widened_exactly() {
    on_each(Widening);
}

#[derive(Clone, Copy)]
struct Narrowing;

impl Kernel for Narrowing {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let (mut of_f16, mut of_bf16) = ([0_u16; MAX_LANES], [0_u16; MAX_LANES]);
        for values in sample().chunks_exact(S::LANES) {
            unsafe {
                let vector = S::load(values.as_ptr());
                S::store_f16(of_f16.as_mut_ptr(), vector);
                S::store_bf16(of_bf16.as_mut_ptr(), vector);
            }
            for ((value, of_f16), of_bf16) in values.iter().zip(of_f16).zip(of_bf16) {
                let (f, bf) = (f16::from_bits(of_f16), bf16::from_bits(of_bf16));
                let bits = value.to_bits();
                assert!(same(f.to_f32(), f16::from_f32(*value).to_f32()), "f16 of {value} ({bits:#x}): {f}");
                assert!(
                    same(bf.to_f32(), bf16::from_f32(*value).to_f32()),
                    "bf16 of {value} ({bits:#x}): {bf}"
                );
            }
        }
    }
}

#[test]
fn floats_are_rounded_to_the_nearest_16_bit_float_and_to_the_even_one_of_two() {
    on_each(Narrowing);
}

#[derive(Clone, Copy)]
struct Arithmetic;

impl Kernel for Arithmetic {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let special = [
            0.0,
            -0.0,
            1.0,
            -1.5,
            2.5,
            3.5,
            -0.5,
            7.0,
            1e30,
            -1e-30,
            f32::INFINITY,
            f32::NEG_INFINITY,
            f32::NAN,
        ];
        let picks: Vec<_> = special.iter().flat_map(|a| special.map(|b| (*a, b))).collect();
        let check = |what: &str, actual: Vec<f32>, expected: Vec<f32>| {
            for (actual, expected) in actual.iter().zip(expected) {
                assert!(same(*actual, expected), "{what}: {actual}, not {expected}");
            }
        };
        for pairs in picks.chunks(S::LANES) {
            let mut left = [1.0; MAX_LANES];
            let mut right = [1.0; MAX_LANES];
            for (lane, (a, b)) in pairs.iter().enumerate() {
                (left[lane], right[lane]) = (*a, *b);
            }
            let each = |f: &dyn Fn(f32, f32) -> f32| {
                left.iter().zip(right).map(|(a, b)| f(*a, b)).take(S::LANES).collect::<Vec<_>>()
            };
            unsafe {
                let (a, b) = (S::load(left.as_ptr()), S::load(right.as_ptr()));
                check("add", floats::<S>(S::add(a, b)), each(&|a, b| a + b));
                check("mul", floats::<S>(S::mul(a, b)), each(&|a, b| a * b));
                check("div", floats::<S>(S::div(a, b)), each(&|a, b| a / b));
                check("max", floats::<S>(S::max(a, b)), each(&|a, b| if a > b { a } else { b }));
                check("min", floats::<S>(S::min(a, b)), each(&|a, b| if a < b { a } else { b }));
                check("round", floats::<S>(S::round(a)), each(&|a, _| a.round_ties_even()));
                check("splat", floats::<S>(S::splat(left[0])), vec![left[0]; S::LANES]);
            }
        }
        // Whole numbers, whose products and sums are exact whether or not they are fused.
        let [a, b, c] =
            [7, 11, 13].map(|factor| std::array::from_fn(|lane| ((lane as i32 * factor) % 17 - 8) as f32));
        let [a, b, c]: [[f32; MAX_LANES]; 3] = [a, b, c];
        unsafe {
            let fused = S::fma(S::load(a.as_ptr()), S::load(b.as_ptr()), S::load(c.as_ptr()));
            let expected = (0..S::LANES).map(|lane| a[lane] * b[lane] + c[lane]).collect();
            check("fma", floats::<S>(fused), expected);
            assert_eq!(S::sum(S::load(a.as_ptr())), a[..S::LANES].iter().sum::<f32>());
            for count in 0..=S::LANES {
                let expected = (0..S::LANES).map(|lane| if lane < count { a[lane] } else { 0.0 }).collect();
                check("load_partial", floats::<S>(S::load_partial(a.as_ptr(), count)), expected);
            }
            for n in -126_i16..=127 {
                let scaled = S::scale_by_power(S::splat(1.5), S::splat(f32::from(n)));
                // 2¹²⁷ · 1.5 is a float.
                check(
                    "scale_by_power",
                    floats::<S>(scaled),
                    vec![1.5 * 2.0_f32.powi(i32::from(n)); S::LANES],
                );
            }
        }
    }
}

#[test]
fn arithmetic_is_that_of_floats_and_heeds_what_is_not_a_number() {
    on_each(Arithmetic);
}

#[derive(Clone, Copy)]
struct Bits;

impl Bits {
    #[inline(always)]
    unsafe fn fields<S: Simd, const BITS: u32>(stream: &[u8]) {
        let table: [f32; 16] = std::array::from_fn(|index| 100.0 - index as f32);
        let field = |at: usize| {
            (0..BITS as usize).fold(0, |field, bit| {
                let at = at * BITS as usize + bit;
                field | (u32::from(stream[at / 8] >> (at % 8)) & 1) << bit
            })
        };
        // At any byte, not at whole words alone. What follows the last vector lies outside the array.
        let bytes = S::LANES * BITS as usize / 8;
        for first in (0..=stream.len() - bytes).step_by(BITS as usize) {
            let at = first / BITS as usize * 8;
            let words = unsafe { S::fields::<BITS>(stream[first..first + bytes].as_ptr()) };
            let [actual, looked_up] = unsafe {
                [floats::<S>(S::to_floats(words)), floats::<S>(S::lookup(S::table(&table), words))]
            };
            for lane in 0..S::LANES {
                assert_eq!(actual[lane], field(at + lane) as f32, "{BITS} bits at byte {first}, lane {lane}");
                assert_eq!(looked_up[lane], table[field(at + lane) as usize & 15], "lookup at byte {first}");
            }
        }
    }

    #[inline(always)]
    unsafe fn low<S: Simd, const BITS: u32>(words: &[u32; MAX_LANES]) {
        let table: [f32; 16] = std::array::from_fn(|index| index as f32 * 0.5 - 3.0);
        unsafe {
            let mut vector = S::load_words(words.as_ptr());
            for step in 0..32 / BITS {
                let low = floats::<S>(S::low::<BITS>(vector));
                let looked_up = floats::<S>(S::lookup(S::table(&table), vector));
                for lane in 0..S::LANES {
                    let word = words[lane] >> (step * BITS);
                    assert_eq!(low[lane], (word & ((1 << BITS) - 1)) as f32, "{BITS} bits, step {step}");
                    assert_eq!(looked_up[lane], table[word as usize & 15], "lookup, step {step}");
                }
                vector = S::shift::<BITS>(vector);
            }
        }
    }
}

impl Kernel for Bits {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let stream: Vec<u8> = (0..240_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        let words: [u32; MAX_LANES] =
            std::array::from_fn(|lane| (lane as u32 + 1).wrapping_mul(2_654_435_761));
        unsafe {
            Self::fields::<S, 2>(&stream);
            Self::fields::<S, 3>(&stream);
            Self::fields::<S, 4>(&stream);
            Self::fields::<S, 5>(&stream);
            Self::fields::<S, 6>(&stream);
            Self::fields::<S, 8>(&stream);
            Self::low::<S, 2>(&words);
            Self::low::<S, 4>(&words);
            Self::low::<S, 8>(&words);
            let small = words.map(|word| word >> 8);
            for count in 0..=S::LANES {
                let actual = floats::<S>(S::to_floats(S::load_words_partial(small.as_ptr(), count)));
                for lane in 0..S::LANES {
                    assert_eq!(actual[lane], if lane < count { small[lane] as f32 } else { 0.0 });
                }
            }
            let values: [f32; MAX_LANES] = std::array::from_fn(|lane| lane as f32 + 0.25);
            let indices: [u32; MAX_LANES] = std::array::from_fn(|lane| ((lane * 5 + 3) % S::LANES) as u32);
            let picked = floats::<S>(S::pick(values.as_ptr(), S::indices(&indices)));
            for lane in 0..S::LANES {
                assert_eq!(picked[lane], values[indices[lane] as usize]);
            }
            // Wherever it points.
            S::prefetch(std::ptr::null());
            S::prefetch(stream.as_ptr());
        }
    }
}

#[test]
fn fields_of_a_stream_of_bits_and_entries_of_a_table_are_what_stands_there() {
    on_each(Bits);
}

#[derive(Clone, Copy)]
struct Exponentials;

impl Kernel for Exponentials {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        for step in 0..17_500 {
            let x = step as f32 * 0.01 - 87.3;
            let [actual, ..] = unsafe { floats::<S>(super::exp::<S>(S::splat(x))) }[..] else {
                unreachable!()
            };
            let expected = f64::from(x).exp();
            assert!((f64::from(actual) / expected - 1.0).abs() < 2e-7, "e^{x} is {expected}, not {actual}");
        }
        let ends = [f32::NEG_INFINITY, f32::INFINITY, f32::NAN]
            .map(|x| unsafe { floats::<S>(super::exp::<S>(S::splat(x)))[0] });
        assert!(ends[0] > 0.0 && ends[0] < 2e-38, "{ends:?}");
        assert!(ends[1].is_finite() && ends[1] > 1e38, "{ends:?}");
        assert!(ends[2].is_nan(), "{ends:?}");
    }
}

#[test]
fn exponentials_are_as_exact_as_stated() {
    on_each(Exponentials);
}

/// So that one of them cannot be missing from the tests without a word.
#[test]
fn this_processor_has_the_instruction_sets_that_its_architecture_always_has() {
    assert_eq!(Isa::available().last(), Some(&Isa::Portable));
    assert_eq!(Isa::available().contains(&Isa::Neon), cfg!(target_arch = "aarch64"));
}
