//! The layouts of the historical files: a header says which one a file has, and exactly one fits.
//!
//! A new layout is one line in the table. What its columns hold is [`super::columns`]'s business.

use crate::record::Harness;

/// One historical layout.
#[derive(Debug)]
pub(super) struct Layout {
    /// Its name in reports.
    pub(super) id: &'static str,
    /// Kind of measurement, unless the file's name says otherwise.
    pub(super) harness: Harness,
    /// Column names, comma separated, in their order. `VERSION` stands for any of [`VERSION_COLUMNS`].
    pub(super) columns: &'static str,
}

/// The names that one and the same version column has had.
pub(super) const VERSION_COLUMNS: [&str; 3] = ["mlx_version", "mlxcel_version", "baseline_version"];

macro_rules! sweep {
    ($rest:literal) => {
        concat!(
            "model,model_path,prompt_tokens,generated_tokens,prefill_ms,prefill_tok_s,decode_ms,decode_tok_s,date,hardware,\
             VERSION,build_type,max_tokens,prompt",
            $rest
        )
    };
}

const LAYOUTS: &[Layout] = &[
    Layout { id: "sweep-14", harness: Harness::Text, columns: sweep!("") },
    Layout { id: "sweep-15", harness: Harness::Text, columns: sweep!(",prompt_target_len") },
    Layout {
        id: "sweep-17",
        harness: Harness::Text,
        columns: sweep!(",prompt_target_len,mlxcel_commit,mlx_commit"),
    },
    Layout {
        id: "sweep-19-rocm",
        harness: Harness::Text,
        columns: sweep!(",prompt_target_len,mlxcel_commit,mlx_commit,mlx_rocm_overlay_commit,hip_version"),
    },
    Layout {
        id: "kv-cache-matrix",
        harness: Harness::KvCache,
        columns: "model,model_path,kv_cache_mode,context_target,stage,run_index,prompt_tokens,generated_tokens,prefill_ms,\
                  prefill_tok_s,decode_ms,decode_tok_s,thermal_start,thermal_end,hardware,date",
    },
    Layout {
        id: "kv-cache-quantized",
        harness: Harness::KvCache,
        columns: "date,device,model,context_tokens,gen_tokens,kv_cache_mode,prefill_ms,prefill_tok_s,decode_ms,\
                  decode_tok_s,mlx_peak_gb,prefill_chunk,notes",
    },
    Layout {
        id: "long-prompt-memory",
        harness: Harness::Variants,
        columns: "model,prompt_tokens,generated_tokens,prefill_chunk,prefill_ms,prefill_tok_s,decode_ms,decode_tok_s,\
                  mlx_peak_gb,sys_peak_gb,date,hardware,VERSION,build_type,notes",
    },
    Layout {
        id: "repack-variants",
        harness: Harness::Variants,
        columns: "variant,repack,model,model_path,prompt_tokens,generated_tokens,load_wall_s,load_peak_gb,prefill_ms,\
                  prefill_tok_s,decode_ms,decode_tok_s,run_peak_gb,date,hardware,VERSION,build_type,max_tokens,prompt,\
                  prompt_target_len",
    },
    Layout {
        id: "repack-variants-scale",
        harness: Harness::Variants,
        columns: "variant,repack,scale_path,model,model_path,prompt_tokens,generated_tokens,load_wall_s,load_peak_gb,\
                  prefill_ms,prefill_tok_s,decode_ms,decode_tok_s,run_peak_gb,date,hardware,VERSION,build_type,\
                  max_tokens,prompt,prompt_target_len",
    },
    Layout {
        id: "repack-variants-commit",
        harness: Harness::Variants,
        columns: "variant,repack,model,model_path,prompt_tokens,generated_tokens,load_wall_s,load_peak_gb,prefill_ms,\
                  prefill_tok_s,decode_ms,decode_tok_s,run_peak_gb,date,hardware,os,mlxcel_commit,build_type,max_tokens,\
                  prompt,prompt_target_len,env_override",
    },
    Layout {
        id: "graph-variants",
        harness: Harness::Variants,
        columns: "model,variant,cuda_graphs,coherent_tokens,deterministic,decode_tok_s,date,hardware,VERSION,build_type,\
                  notes",
    },
    Layout {
        id: "perplexity-variants",
        harness: Harness::Perplexity,
        columns: "model,variant,scored_len,mean_nll,perplexity,date,hardware,build_type,notes",
    },
    Layout {
        id: "perplexity",
        harness: Harness::Perplexity,
        columns: "model,scored_len,mean_nll,perplexity,variant,date,hardware,notes",
    },
    Layout {
        id: "moe-crossover",
        harness: Harness::MoeCrossover,
        columns: "model,dff,quant_mode,fallback_run1,fallback_run2,fallback_run3,fallback_median,fused_run1,fused_run2,\
                  fused_run3,fused_median,fused_over_fallback",
    },
    Layout {
        id: "quantized-matmul-micro",
        harness: Harness::Micro,
        columns: "shape,bits,out_dim,in_dim,mb_per_call,us_per_call,gb_per_s,t_per_batch,rounds,date,hardware,VERSION,\
                  build_type,notes",
    },
    Layout {
        id: "sparse-v-trace",
        harness: Harness::SparseTrace,
        columns: "call_idx,kv_tokens,skipped,total",
    },
    Layout {
        id: "batch",
        harness: Harness::Batch,
        columns: "model,concurrency,ok,fail,ttft_mean_ms,ttft_p95_ms,decode_tok_s_mean,aggregate_tok_s,prompt_tokens,\
                  max_tokens,parallel,max_batch_prefill,date,hardware,VERSION,commit",
    },
    Layout {
        id: "batch-commits",
        harness: Harness::Batch,
        columns: "model,concurrency,ok,fail,ttft_mean_ms,ttft_p95_ms,decode_tok_s_mean,aggregate_tok_s,prompt_tokens,\
                  max_tokens,parallel,max_batch_prefill,date,hardware,VERSION,mlxcel_commit,mlx_commit",
    },
    Layout {
        id: "speculative",
        harness: Harness::Speculative,
        columns: "pairing,kind,batch,block_size,tok_s,speedup_vs_baseline,acceptance_rate,mean_accepted_len,status,date,\
                  hardware,VERSION,max_tokens,prompt,commit",
    },
    Layout {
        id: "speculative-commits",
        harness: Harness::Speculative,
        columns: "pairing,kind,batch,block_size,tok_s,speedup_vs_baseline,acceptance_rate,mean_accepted_len,status,date,\
                  hardware,VERSION,max_tokens,prompt,mlxcel_commit,mlx_commit",
    },
];

/// The layout with exactly this header.
pub(super) fn of_header(header: &csv::StringRecord) -> Option<&'static Layout> {
    LAYOUTS.iter().find(|layout| agreeing(layout, header) == layout.width() && layout.width() == header.len())
}

/// Where a header first leaves the layout that it agrees with longest: column (from 1), what is there, what should be,
/// and the layout.
pub(super) fn nearest(header: &csv::StringRecord) -> (usize, String, String, &'static str) {
    let best = LAYOUTS.iter().max_by_key(|layout| agreeing(layout, header));
    let quoted = |name: Option<&str>| name.map_or_else(|| "no column".to_owned(), |name| format!("`{name}`"));
    best.map_or_else(
        || (1, quoted(header.get(0)), "nothing".to_owned(), "none"),
        |layout| {
            let index = agreeing(layout, header);
            (index + 1, quoted(header.get(index)), quoted(layout.columns.split(',').nth(index)), layout.id)
        },
    )
}

fn agreeing(layout: &Layout, header: &csv::StringRecord) -> usize {
    layout.columns.split(',').zip(header.iter()).take_while(|(column, name)| same(column, name)).count()
}

fn same(column: &str, name: &str) -> bool {
    column == name || (column == "VERSION" && VERSION_COLUMNS.contains(&name))
}

impl Layout {
    fn width(&self) -> usize {
        self.columns.split(',').count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_layout_is_told_by_its_own_header_alone() {
        for layout in LAYOUTS {
            for version in VERSION_COLUMNS {
                let header: csv::StringRecord = layout
                    .columns
                    .split(',')
                    .map(|name| if name == "VERSION" { version } else { name })
                    .collect();
                assert_eq!(of_header(&header).map(|found| found.id), Some(layout.id));
                assert!(!layout.columns.contains(' '), "{}", layout.id);
            }
        }
    }

    #[test]
    fn a_header_with_a_column_more_or_less_is_no_layout() {
        let names: Vec<&str> = sweep!("").split(',').collect();
        assert!(of_header(&names[..13].to_vec().into()).is_none());
        let mut longer = names.clone();
        longer.push("extra");
        assert!(of_header(&longer.clone().into()).is_none());
        assert_eq!(nearest(&longer.into()).0, 15);
    }
}
