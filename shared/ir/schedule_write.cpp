// The writing half of schedule_json.h: one op, buffer, access or edge per line.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <functional>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>

#include "shared/files.h"
#include "shared/ir/schedule_json.h"
#include "shared/ir/schedule_names.h"

namespace penstock {
namespace {

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

template <typename Enum>
std::string_view word(std::span<const std::string_view> names, Enum value) {
  return names[static_cast<std::size_t>(value)];
}

/// Takes the text piece by piece, each of which it may keep.
using Sink = std::function<void(std::string&&)>;
constexpr std::size_t kPieceBytes = 1 << 20;

class Writer {
 public:
  /// Pieces have so many bytes, or a line more.
  Writer(const Schedule& schedule, std::size_t piece_bytes, const Sink& sink)
      : schedule_(schedule), piece_bytes_(piece_bytes), sink_(sink) {}

  void write() {
    put("{{\n\"format\": \"penstock-schedule/{}\",\n\"policy\": {},\n", says_what_rows_are() ? 2 : 1,
        quoted(schedule_.policy));
    model();
    head();
    list("tiers", schedule_.tiers, [&](const Tier& tier) {
      put("{{\"kind\": \"{}\", \"device\": {}, \"capacity_bytes\": {}}}", word(tier_names(), tier.kind), tier.device,
          tier.capacity_bytes);
    });
    list("lanes", schedule_.lanes, [&](const Lane& lane) {
      put("{{\"name\": {}, \"kind\": \"{}\", \"device\": {}}}", quoted(lane.name), word(lane_kind_names(), lane.kind),
          lane.device);
    });
    list("buffers", schedule_.buffers, [&](const Buffer& buffer) {
      put("{{\"name\": {}, \"tier\": {}, \"offset_bytes\": {}, \"bytes\": {}}}", quoted(buffer.name), buffer.tier,
          buffer.offset_bytes, buffer.bytes);
    });
    list("initial", schedule_.initial, [&](const Access& at) { access(at); });
    list("ops", schedule_.ops, [&](const Op& at) { op(at); });
    list("edges", schedule_.edges, [&](const Edge& edge) { put("[{}, {}, {}]", edge.from, edge.to, edge.distance); });
    text_.resize(text_.size() - 2);  // the last list's comma and line end
    text_ += "\n}\n";
    sink_(std::move(text_));
  }

 private:
  bool says_what_rows_are() const {
    return schedule_.micro_batch.kind != BatchKind::windows || schedule_.micro_batch.is_cut();
  }

  template <typename... Args>
  void put(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
  }

  template <typename Item, typename Write>
  void list(const char* key, const std::vector<Item>& items, Write write) {
    put("\"{}\": [", key);
    bool first = true;
    for (const Item& item : items) {
      if (text_.size() >= piece_bytes_) {
        sink_(std::move(text_));
        text_.clear();
      }
      text_ += first ? "\n  " : ",\n  ";
      write(item);
      first = false;
    }
    text_ += "],\n";
  }

  void model() {
    const ModelConfig& c = schedule_.model;
    put("\"model\": {{\"name\": {}, \"family\": \"{}\", \"hidden\": {}, \"intermediate\": {}, \"decoder_layers\": {}, ",
        quoted(c.name), word(model_family_names(), c.family), c.hidden, c.intermediate, c.decoder_layers);
    put("\"heads\": {}, \"kv_heads\": {}, \"head_dim\": {}, \"vocabulary\": {}, \"max_positions\": {},\n  ", c.heads,
        c.kv_heads, c.head_dim, c.vocabulary, c.max_positions);
    put("\"tied_embeddings\": {}, \"qkv_bias\": {}, \"qk_norm\": {}, \"rms_epsilon\": {}, \"rope_theta\": {}, ",
        c.tied_embeddings, c.qkv_bias, c.qk_norm, c.rms_epsilon, c.rope_theta);
    put("\"rope_factor\": {}, \"rope_low_freq_factor\": {}, \"rope_high_freq_factor\": {}, "
        "\"rope_original_positions\": {}",
        c.rope_factor, c.rope_low_freq_factor, c.rope_high_freq_factor, c.rope_original_positions);
    if (c.sliding_window > 0)
      put(",\n  \"sliding_window\": {}, \"window_layers\": [{}]", c.sliding_window, fmt::join(c.window_layers, ", "));
    if (c.rope_scaling != RopeScaling::none)
      put(",\n  \"rope_scaling\": \"{}\", \"rope_attention_factor\": {}, \"rope_truncate\": {}",
          word(rope_scaling_names(), c.rope_scaling), c.rope_attention_factor, c.rope_truncate);
    if (c.qk_norm_whole) put(",\n  \"qk_norm_whole\": true");
    if (const Experts& e = c.experts; e.count > 0) {
      put(",\n  \"experts\": {{\"count\": {}, \"per_token\": {}, \"intermediate\": {}, \"normalised\": {}, \"balance\": {}, ",
          e.count, e.per_token, e.intermediate, e.normalised, e.balance);
      put("\"every\": {}, \"dense_layers\": [{}]}}", e.every, fmt::join(e.dense_layers, ", "));
    }
    if (!c.frozen_layers.empty()) put(",\n  \"frozen_layers\": [{}]", fmt::join(c.frozen_layers, ", "));
    text_ += "},\n";
  }

  void head() {
    const Numerics& n = schedule_.numerics;
    const BatchShape& batch = schedule_.micro_batch;
    put("\"micro_batch\": {{\"sequences\": {}, \"sequence_length\": {}", batch.sequences, batch.sequence_length);
    if (says_what_rows_are()) put(", \"rows\": \"{}\"", word(batch_kind_names(), batch.kind));
    if (batch.kind != BatchKind::windows) put(", \"squared_lengths\": {}", batch.squared_lengths);
    if (batch.is_cut()) put(", \"chunk_tokens\": {}", batch.chunk_tokens);
    if (batch.expert_skew != 1) put(", \"expert_skew\": {}", batch.expert_skew);
    put("}},\n\"micro_batches\": {},\n\"library_bytes\": {},\n", schedule_.micro_batches, schedule_.library_bytes);
    put("\"numerics\": {{\"states\": \"{}\", \"moments\": \"{}\", \"gradient_sum\": \"{}\", \"gradient_link\": "
        "\"{}\", ",
        word(state_format_names(), n.states), word(element_type_names(), n.moments),
        word(element_type_names(), n.gradient_sum), word(element_type_names(), n.gradient_link));
    put("\"sum_on_host\": {}, \"clip\": {}, \"mlp_tokens\": {}, \"loss_tokens\": {}}},\n", n.sum_on_host, n.clip,
        n.chunking.mlp_tokens, n.chunking.loss_tokens);
  }

  void access(const Access& at) {
    put("[{}, {}, {}, \"{}\"]", at.buffer, at.offset_bytes, at.bytes, value_label(at.value));
  }

  void accesses(const char* key, const std::vector<Access>& list) {
    if (list.empty()) return;
    put(", \"{}\": [", key);
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (i > 0) text_ += ", ";
      access(list[i]);
    }
    text_ += ']';
  }

  void op(const Op& op) {
    put("{{\"id\": {}, \"name\": {}, \"lane\": {}", op.id, quoted(op.name), op.lane);
    if (op.layer != -1) put(", \"layer\": {}", op.layer);
    if (op.micro_batch != -1) put(", \"micro_batch\": {}", op.micro_batch);
    put(", \"phase\": \"{}\", \"work\": \"{}\"", word(phase_names(), op.phase), work_names()[op.work.index()]);
    std::visit([&](const auto& details) { work(details); }, op.work);
    accesses("reads", op.reads);
    accesses("writes", op.writes);
    text_ += '}';
  }

  void work(const CopyWork& copy) {
    text_ += ", \"bursts\": [";
    for (std::size_t i = 0; i < copy.bursts.size(); ++i)
      put("{}[{}, {}]", i == 0 ? "" : ", ", copy.bursts[i].bytes, copy.bursts[i].count);
    text_ += ']';
    if (copy.threads != 1) put(", \"threads\": {}", copy.threads);
  }
  void work(const TemplateWork& bound) {
    put(", \"template\": \"{}\", \"pass\": \"{}\", \"keep\": \"{}\"", word(layer_kind_names(), bound.kind),
        word(pass_names(), bound.pass), word(keep_names(), bound.keep));
  }
  void work(const OptimizerWork& pass) { elements(pass.elements, pass.threads); }
  void work(const AccumulateWork& pass) { elements(pass.elements, pass.threads); }
  void work(const FinishGradientWork& pass) { elements(pass.elements, pass.threads); }
  void work(const HostPassWork& pass) {
    put(", \"traffic_bytes\": {}, \"threads\": {}", pass.traffic_bytes, pass.threads);
  }
  void work(const WaitWork& wait) { put(", \"op\": {}, \"distance\": {}", wait.op, wait.distance); }
  void work(const StepScalarsWork&) {}
  void work(const InputWork&) {}
  void work(const ReportWork&) {}
  void elements(std::int64_t count, int threads) { put(", \"elements\": {}, \"threads\": {}", count, threads); }

  const Schedule& schedule_;
  const std::size_t piece_bytes_;
  const Sink& sink_;
  std::string text_;  // not handed over yet
};

}  // namespace

std::string schedule_text(const Schedule& schedule) {
  std::string text;
  Writer(schedule, std::numeric_limits<std::size_t>::max(), [&](std::string&& whole) {
    text = std::move(whole);
  }).write();
  return text;
}

void write_schedule(const Schedule& schedule, const std::filesystem::path& path) {
  OutputFile file(path);
  Writer(schedule, kPieceBytes, [&](std::string&& piece) { file.write(piece); }).write();
  file.commit();
}

}  // namespace penstock
