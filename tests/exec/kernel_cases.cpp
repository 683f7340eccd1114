#include "tests/exec/kernel_cases.h"

#include <algorithm>
#include <map>
#include <ostream>

#include "shared/ir/schedule_names.h"
#include "shared/random.h"

namespace penstock::exec {
namespace {

ModelConfig config(std::int64_t hidden, std::int64_t intermediate, std::int64_t heads, std::int64_t kv_heads,
                   std::int64_t head_dim, std::int64_t vocabulary) {
  ModelConfig c;
  c.hidden = hidden;
  c.intermediate = intermediate;
  c.decoder_layers = 1;
  c.heads = heads;
  c.kv_heads = kv_heads;
  c.head_dim = head_dim;
  c.vocabulary = vocabulary;
  c.max_positions = 8192;
  return c;
}

ModelConfig with_bias(ModelConfig c) {
  c.family = ModelFamily::qwen2;
  c.qkv_bias = true;
  return c;
}
ModelConfig with_qk_norm(ModelConfig c) {
  c.family = ModelFamily::qwen3;
  c.qk_norm = true;
  return c;
}
ModelConfig with_experts(ModelConfig c, std::int64_t count, std::int64_t per_token, std::int64_t width,
                         bool normalised) {
  c.family = ModelFamily::mixtral;
  c.experts = {
      .count = count, .per_token = per_token, .intermediate = width, .normalised = normalised, .dense_layers = {}};
  return c;
}
ModelConfig with_balance(ModelConfig c) {
  c.experts.balance = 0.5;
  return c;
}
ModelConfig with_whole_qk_norm(ModelConfig c) {
  c.qk_norm = c.qk_norm_whole = true;
  return c;
}
ModelConfig with_scaling(ModelConfig c) {
  c.rope_factor = 8;
  c.rope_original_positions = 64;
  return c;
}
ModelConfig with_yarn(ModelConfig c) {
  c.rope_scaling = RopeScaling::yarn;
  c.rope_factor = 4;
  c.rope_original_positions = 64;
  c.rope_low_freq_factor = 1;
  c.rope_high_freq_factor = 32;
  c.rope_attention_factor = 1.2;
  return c;
}
ModelConfig with_window(ModelConfig c, std::int64_t window) {
  c.sliding_window = window;
  c.window_layers = {0};
  return c;
}
BatchShape packed(std::int64_t sequences, std::int64_t length) { return {sequences, length, BatchKind::packed}; }
BatchShape cut(BatchShape sequence, std::int64_t chunk_tokens) {
  sequence.chunk_tokens = chunk_tokens;
  return sequence;
}
ModelConfig tied(ModelConfig c) {
  c.tied_embeddings = true;
  return c;
}

}  // namespace

void PrintTo(const KernelCase& c, std::ostream* out) { *out << c.name; }

const std::vector<KernelCase>& kernel_cases() {
  constexpr ElementType fp32 = ElementType::fp32, bf16 = ElementType::bf16;
  static const std::vector<KernelCase> all = {
      {"odd_sizes_bias", with_bias(config(100, 172, 5, 1, 20, 333)), {2, 37}},
      {"one_token", config(128, 256, 2, 1, 64, 512), {1, 1}},
      {"length_129_scaled_rotary", with_scaling(config(256, 320, 4, 1, 64, 1000)), {3, 129}},
      {"chunked_tied_bias", tied(with_bias(config(256, 512, 6, 2, 128, 640))), {2, 200}, {96, 150}},
      {"qk_norm", with_qk_norm(config(192, 384, 4, 2, 128, 768)), {2, 100}, {0, 64}},
      {"qk_norm_chunked", with_qk_norm(config(256, 264, 4, 4, 64, 776)), {1, 300}, {128, 128}},
      {"qk_norm_odd", with_qk_norm(config(90, 130, 3, 3, 30, 257)), {3, 21}, {10, 7}},
      {"bf16_gradient_sums", with_bias(config(256, 256, 4, 2, 64, 512)), {2, 128}, {}, bf16},
      {"many_rows", config(64, 128, 2, 1, 64, 300), {4, 1024}},
      {"tiny_one_token", config(6, 10, 3, 1, 2, 11), {1, 1}, {}, fp32, true},
      {"tiny_chunks_of_one", tied(with_bias(config(10, 14, 2, 2, 6, 13))), {3, 5}, {1, 1}, fp32, true},
      {"tiny_past_one_tile", with_qk_norm(with_scaling(config(6, 10, 3, 1, 4, 11))), {1, 65}, {64, 33}, fp32, true},
      {"tiny_past_two_tiles", with_bias(config(8, 6, 4, 2, 4, 9)), {2, 129}, {100, 0}, fp32, true},
      {"packed_short_documents",
       with_bias(config(256, 320, 4, 2, 64, 512)),
       packed(2, 300),
       {},
       fp32,
       false,
       {50, 1, 70, 64, 13}},
      {"packed_across_tiles",
       with_qk_norm(config(192, 384, 4, 2, 128, 768)),
       packed(1, 1000),
       {0, 64},
       fp32,
       false,
       {500, 129, 300}},
      {"packed_odd_sizes", with_scaling(config(100, 172, 5, 1, 20, 333)), packed(3, 150), {}, fp32, false, {7, 64, 1}},
      {"packed_one_document_a_row", config(128, 256, 2, 1, 64, 512), packed(2, 200), {}, bf16, false, {200}},
      {"tiny_packed", tied(with_bias(config(10, 14, 2, 2, 6, 13))), packed(2, 9), {4, 5}, fp32, true, {4, 1, 3}},
      {"tiny_packed_past_tiles",
       with_qk_norm(config(6, 10, 3, 1, 4, 11)),
       packed(1, 200),
       {64, 33},
       fp32,
       true,
       {70, 3, 90}},
      {"chunk_odd_sizes_bias", with_bias(config(100, 172, 5, 1, 20, 333)), cut({1, 137}, 50)},
      {"chunk_behind_tiles", with_qk_norm(config(192, 384, 4, 2, 128, 768)), cut({1, 640}, 256), {96, 64}},
      {"chunk_of_one_token", with_scaling(config(256, 320, 4, 1, 64, 1000)), cut({1, 201}, 100)},
      {"chunk_across_documents",
       with_bias(config(256, 320, 4, 2, 64, 512)),
       cut(packed(1, 450), 170),
       {},
       bf16,
       false,
       {50, 1, 170, 64, 113}},
      {"tiny_chunks", tied(with_bias(config(10, 14, 2, 2, 6, 13))), cut({1, 17}, 5), {4, 3}, fp32, true},
      {"tiny_chunks_past_a_tile",
       with_qk_norm(with_scaling(config(6, 10, 3, 1, 4, 11))),
       cut({1, 141}, 70),
       {64, 33},
       fp32,
       true},
      {"tiny_chunks_across_documents",
       with_qk_norm(config(8, 6, 4, 2, 4, 9)),
       cut(packed(1, 90), 31),
       {},
       fp32,
       true,
       {40, 3, 25}},
      {"experts", with_qk_norm(with_experts(config(192, 384, 4, 2, 128, 768), 16, 4, 96, true)), {2, 100}, {0, 64}},
      {"experts_odd_chunked", with_experts(config(100, 172, 5, 1, 20, 333), 7, 3, 37, false), {2, 37}, {10, 7}},
      {"experts_one_token", with_whole_qk_norm(with_experts(config(128, 256, 2, 2, 64, 512), 8, 2, 64, false)), {1, 1}},
      {"experts_one_of_many",
       with_whole_qk_norm(with_experts(config(160, 128, 5, 5, 32, 300), 40, 1, 72, true)),
       {3, 50}},
      {"experts_all_chosen", with_experts(config(64, 128, 2, 1, 64, 300), 4, 4, 40, true), {1, 130}, {}, bf16},
      {"tiny_experts",
       with_whole_qk_norm(with_experts(config(10, 14, 2, 2, 6, 13), 5, 2, 3, false)),
       {2, 5},
       {},
       fp32,
       true},
      {"tiny_experts_chunked",
       with_qk_norm(with_experts(config(6, 10, 3, 1, 2, 11), 3, 2, 4, true)),
       {1, 9},
       {4, 5},
       fp32,
       true},
      {"tiny_experts_packed",
       with_experts(config(6, 10, 3, 1, 2, 11), 4, 1, 1, true),
       packed(2, 9),
       {4, 5},
       fp32,
       true,
       {4, 1, 3}},
      {"experts_balanced",
       with_balance(with_qk_norm(with_experts(config(192, 384, 4, 2, 128, 768), 16, 4, 96, true))),
       {2, 100}},
      {"experts_balanced_packed_odd",
       with_balance(with_experts(config(100, 172, 5, 1, 20, 333), 7, 3, 37, false)),
       packed(2, 120),
       {64, 50},
       fp32,
       false,
       {70, 31, 13}},
      {"tiny_experts_balanced",
       with_balance(with_whole_qk_norm(with_experts(config(10, 14, 2, 2, 6, 13), 5, 2, 3, false))),
       {2, 5},
       {4, 0},
       fp32,
       true},
      {"tiny_experts_balanced_packed",
       with_balance(with_experts(config(6, 10, 3, 1, 2, 11), 4, 2, 1, true)),
       packed(2, 9),
       {},
       fp32,
       true,
       {4, 1, 3}},
      {"window_past_tiles", with_window(config(256, 320, 4, 2, 64, 512), 70), {2, 300}},
      {"window_of_one_yarn", with_yarn(with_window(config(100, 172, 5, 1, 20, 333), 1)), {2, 37}},
      {"packed_window_yarn",
       with_window(with_yarn(with_qk_norm(config(192, 384, 4, 2, 128, 768))), 100),
       packed(1, 1000),
       {},
       fp32,
       false,
       {500, 129, 300}},
      {"tiny_window", with_window(with_bias(config(10, 14, 2, 1, 6, 13)), 3), {2, 9}, {4, 5}, fp32, true},
      {"tiny_window_past_tiles_yarn", with_yarn(with_window(config(8, 6, 4, 2, 4, 9), 40)), {1, 129}, {}, fp32, true},
      {"tiny_packed_window",
       with_window(with_qk_norm(config(6, 10, 3, 1, 4, 11)), 66),
       packed(1, 200),
       {64, 33},
       fp32,
       true,
       {70, 3, 90}},
      {"chunk_under_a_window", with_window(config(256, 320, 4, 2, 64, 512), 90), cut({1, 330}, 128)},
      {"tiny_chunks_under_a_window_yarn",
       with_yarn(with_window(with_bias(config(8, 6, 4, 2, 4, 9)), 40)),
       cut({1, 141}, 70),
       {64, 33},
       fp32,
       true},
      {"tiny_chunks_across_documents_under_a_window",
       with_window(with_qk_norm(config(8, 6, 4, 2, 4, 9)), 7),
       cut(packed(1, 90), 31),
       {},
       fp32,
       true,
       {40, 3, 25}},
      {"tiny_bf16", tied(with_qk_norm(config(10, 6, 2, 1, 4, 17))), {2, 3}, {4, 5}, bf16, true},
  };
  return all;
}

PackedRows case_rows(const KernelCase& c) {
  const auto ids = static_cast<std::uint64_t>(c.config.vocabulary);
  PackedRows rows;
  const auto id = [&](std::size_t i, std::uint64_t key) {
    return static_cast<std::int32_t>(random_below(key, static_cast<std::uint64_t>(i), ids));
  };
  const auto tokens = static_cast<std::size_t>(c.batch.sequences * c.batch.token_row());
  for (std::size_t i = 0; i < tokens; ++i) rows.tokens.push_back(id(i, 7));
  if (c.batch.kind != BatchKind::packed) return rows;
  for (std::int64_t sequence = 0; sequence < c.batch.sequences; ++sequence)
    for (std::int64_t place = 0, start = 0, left = 0, next = sequence; place < c.batch.sequence_length; ++place) {
      if (left-- == 0) {
        start = place;
        left = c.documents[static_cast<std::size_t>(next++) % c.documents.size()] - 1;
      }
      const bool trained = rows.labels.size() % 3 != 1;
      rows.labels.push_back(trained ? id(rows.labels.size(), 8) : kIgnoredLabel);
      rows.document_starts.push_back(static_cast<std::int32_t>(start));
      rows.trained += trained ? 1 : 0;
    }
  return rows;
}

std::string CaseOp::name() const {
  const auto word = [](auto names, auto value) { return std::string(names[static_cast<std::size_t>(value)]); };
  return word(layer_kind_names(), kind) + " " + word(pass_names(), pass) + ", keep " + word(keep_names(), keep) +
         (writes_output ? ", output" : "") + (accumulates ? ", accumulates" : "");
}

std::vector<CaseOp> case_ops(const KernelCase& c) {
  std::vector<CaseOp> ops;
  for (const LayerKind kind : {LayerKind::embedding, decoder_kind(c.config, 0), LayerKind::head})
    for (const Pass pass : {Pass::forward, Pass::recompute, Pass::backward, Pass::loss}) {
      if (operand_uses(kind, pass).empty()) continue;
      for (const Keep keep : kKeeps) {
        if (!is_decoder(kind) && keep != Keep::input) continue;
        for (const bool flag : {false, true}) {
          const bool gradient = pass == Pass::backward || pass == Pass::loss, again = pass == Pass::recompute;
          if (flag && !gradient && !again) continue;
          ops.push_back({kind, pass, keep, again && flag, gradient && flag});
        }
      }
    }
  return ops;
}

BoundCase::BoundCase(const KernelCase& c, const CaseOp& op) : op_(op), model_(make_model(c.config)) {
  binding_.model = &model_;
  binding_.kind = op.kind;
  binding_.pass = op.pass;
  binding_.batch = chunk_of(c.batch, chunk_count(c.batch) - 1);
  binding_.layout = {op.keep, c.chunking, 0};
  if (is_decoder(op.kind)) binding_.window = c.config.sliding_window;
  binding_.gradient_type = c.gradient_type;
  binding_.accumulates = op.accumulates;
  binding_.loss_scale = 1.0 / static_cast<double>(c.batch.tokens());
  rows_ = case_rows(c);
  trained_tokens_ = static_cast<double>(rows_.trained);
  const std::int64_t past = binding_.batch.past;
  const std::map<TemplateOperand, const void*> inputs{{TemplateOperand::tokens, rows_.tokens.data() + past},
                                                      {TemplateOperand::labels, rows_.labels.data() + past},
                                                      {TemplateOperand::document_starts, rows_.document_starts.data()},
                                                      {TemplateOperand::trained_tokens, &trained_tokens_}};
  for (const OperandUse& use : operand_uses(op.kind, op.pass)) {
    if (!use.is_of(c.batch, c.config)) continue;
    if (const auto input = inputs.find(use.operand); input != inputs.end()) {
      binding_.set(use.operand, input->second);
      continue;
    }
    const std::int64_t bytes = binding_.bytes(use.operand);
    if (bytes == 0 || (use.use == Use::may_write && !op.writes_output)) continue;
    memory_.emplace_back(static_cast<std::size_t>(bytes));
    std::vector<std::byte>& memory = memory_.back();
    if (facts(use.operand).tensor == TensorKind::weights)
      for (std::size_t i = 0; i + 1 < memory.size(); i += 2)
        memory[i] = std::byte{0x80}, memory[i + 1] = std::byte{0x3F};
    binding_.set(use.operand, memory.data());
  }
}

std::vector<Kernel> BoundCase::kernels() const {
  return template_kernels(model_, op_.kind, op_.pass, binding_.batch, binding_.layout, op_.writes_output,
                          op_.accumulates, element_bytes(binding_.gradient_type), binding_.window);
}

std::vector<std::string> executions(const std::vector<Kernel>& kernels) {
  std::vector<std::string> names;
  for (const Kernel& kernel : kernels)
    for (std::int64_t i = 0; i < kernel.count; ++i) names.emplace_back(kernel.name());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace penstock::exec
