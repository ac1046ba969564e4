//! Lines of cells under each other, for people.

/// A column: its heading, and whether it holds words, which stand on the left; numbers stand on the right.
pub(super) type Column = (&'static str, bool);

/// The lines, the headings first, each column as wide as its widest cell.
pub(super) fn lines<const N: usize>(columns: [Column; N], rows: impl Iterator<Item = [String; N]>) -> String {
    let cells: Vec<[String; N]> =
        std::iter::once(columns.map(|(heading, _)| heading.to_owned())).chain(rows).collect();
    let widths: [usize; N] = std::array::from_fn(|at| {
        cells.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    });
    let mut text = String::new();
    for row in &cells {
        let padded = row.iter().zip(&widths).zip(columns).map(|((cell, &width), (_, words))| {
            if words { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        text.push_str(padded.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stand_on_the_left_and_numbers_on_the_right() {
        let rows = [["a", "1"], ["long", "1000"]].map(|row| row.map(str::to_owned));
        assert_eq!(
            lines([("name", true), ("ms", false)], rows.into_iter()),
            "name    ms\na        1\nlong  1000\n"
        );
    }
}
