#include "shared/model/config_json_experts.h"

#include <fmt/format.h>

#include <algorithm>

#include "shared/model/model_families.h"

namespace penstock {
namespace {

bool given(JsonObject& object, const char* key) { return object.has(key) && !object.value(key).is_null(); }

std::int64_t size(JsonObject& object, const char* key) { return object.integer(key, 1, largest_size(key)); }

/// Which of the two names a file has depends on the version of transformers that wrote it.
std::int64_t expert_count(JsonObject& object) {
  constexpr const char *kOwn = "num_experts", *kOther = "num_local_experts";
  const auto count = [&](const char* key) { return object.integer(key, 1, largest_size(kOwn)); };
  if (!given(object, kOther)) return count(kOwn);
  if (given(object, kOwn) && count(kOwn) != count(kOther))
    object.fail(kOther, fmt::format("{}, but {} is {}; keep one of the two", count(kOther), kOwn, count(kOwn)));
  return count(kOther);
}

/// Layers without experts, ascending.
std::vector<int> dense_layers(JsonObject& object) {
  std::vector<int> layers;
  if (!given(object, "mlp_only_layers")) return layers;
  const std::int64_t most = largest_size("num_hidden_layers");
  for (const nlohmann::json& layer : object.array("mlp_only_layers")) {
    if (!layer.is_number_integer() || layer < 0 || layer >= most)
      object.fail("mlp_only_layers", fmt::format("expected layers, counted from 0, found {}", shown(layer)));
    layers.push_back(layer.get<int>());
  }
  std::sort(layers.begin(), layers.end());
  layers.erase(std::unique(layers.begin(), layers.end()), layers.end());
  return layers;
}

void read_mixture(JsonObject& object, const ModelConfig& config, Experts& experts) {
  if (given(object, "decoder_sparse_step")) experts.every = size(object, "decoder_sparse_step");
  experts.dense_layers = dense_layers(object);
  for (const int layer : experts.dense_layers)
    if (layer >= config.decoder_layers)
      object.fail("mlp_only_layers",
                  fmt::format("{} is no layer; the model has the layers 0 to {}", layer, config.decoder_layers - 1));
}

}  // namespace

void read_experts(JsonObject& object, ModelConfig& config) {
  const ExpertDefaults* const defaults = expert_defaults(config.family);
  if (defaults == nullptr) return;
  Experts& experts = config.experts;
  experts.count = expert_count(object);
  experts.per_token = size(object, "num_experts_per_tok");
  if (experts.per_token > experts.count)
    object.fail("num_experts_per_tok", fmt::format("{} experts are to be chosen of {}; expected at most {}",
                                                   experts.per_token, experts.count, experts.count));
  experts.intermediate = defaults->has_own_width
                             ? size(object, "moe_intermediate_size")
                             : object.integer("intermediate_size", 1, largest_size("moe_intermediate_size"));
  experts.normalised = defaults->normalised;
  if (given(object, "norm_topk_prob")) {
    experts.normalised = object.boolean("norm_topk_prob");
    if (!defaults->has_normalised && experts.normalised != defaults->normalised)
      object.fail("norm_topk_prob", fmt::format("false is not what {} computes, which always divides by the sum",
                                                model_family_names()[static_cast<std::size_t>(config.family)]));
  }
  if (given(object, "output_router_logits") && object.boolean("output_router_logits"))
    experts.balance =
        given(object, "router_aux_loss_coef") ? object.number("router_aux_loss_coef", 0, 1e3) : defaults->balance;
  if (given(object, "router_jitter_noise") && object.number("router_jitter_noise", 0, 1) > 0)
    object.fail("router_jitter_noise", fmt::format("{} cannot be read: it multiplies what the router sees by random "
                                                   "numbers; expected 0",
                                                   shown(object.value("router_jitter_noise"))));
  if (defaults->may_be_mixed) read_mixture(object, config, experts);
}

}  // namespace penstock
