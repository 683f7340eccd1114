#include "exec/cuda/experts_mlp.h"

#include <algorithm>

#include "exec/cuda/experts.h"
#include "exec/cuda/grouped_matmul.h"

namespace penstock::exec {
namespace {

/// What lies in a chunk's rows is the chunk's; what the router made is all tokens'.
class ExpertsOp {
 public:
  ExpertsOp(Libraries& libraries, const TemplateBinding& binding, Stream stream)
      : libraries_(libraries),
        op_(binding),
        experts_(binding.model->config.experts),
        offsets_(binding.model->experts),
        regions_(binding),
        library_(library_workspace(regions_)),
        stream_(stream),
        tokens_(binding.batch.tokens()),
        hidden_(binding.model->config.hidden),
        width_(experts_.intermediate),
        chunk_tokens_(mlp_rows(binding.batch, binding.layout.chunking)) {
    order_.first = regions_.at<std::int32_t>(Activation::expert_order);
    order_.row = order_.first + expert_order_elements(experts_.count + 1);
    order_.choice_of = order_.row + expert_order_elements(chunk_tokens_ * experts_.per_token);
  }

  void forward(bool makes_gate_up, bool makes_output);
  void backward();

 private:
  std::uint16_t* at(Activation activation) const { return regions_.at<std::uint16_t>(activation); }
  float* floats(Activation activation) const { return regions_.at<float>(activation); }
  std::int32_t* choice() const { return regions_.at<std::int32_t>(Activation::expert_choice); }
  const std::uint16_t* weights(std::int64_t offset) const { return op_.get<TemplateOperand::weights>() + offset; }
  ExpertMatrices gate_up_matrices() const { return {weights(offsets_.gate_up), offsets_.gate_up_stride}; }
  ExpertMatrices down_matrices() const { return {weights(offsets_.down), offsets_.down_stride}; }
  bool makes_gradients() const { return contributes(op_.pass); }
  bool gate_up_is_chunk() const { return regions_.in_workspace(Activation::gate_up); }
  void mark(KernelId kernel) const { libraries_.mark(kernel, stream_); }

  /// A chunk of tokens, and where its rows lie.
  void enter(std::int64_t begin);
  ExpertRows rows() const { return {order_.first, experts_.count, chunk_ * experts_.per_token}; }
  std::int64_t first_choice() const { return begin_ * experts_.per_token; }
  std::uint16_t* gate_up() const {
    return at(Activation::gate_up) + (gate_up_is_chunk() ? 0 : first_choice() * 2 * width_);
  }

  void route() const;
  RowLabels row_labels() const;
  void add_to_balance() const;
  void gather(KernelId kernel, const std::uint16_t* of_tokens, Activation rows) const;
  void make_gate_up() const;
  void make_output() const;
  void backward_chunk(GradientTarget d_gate_up, GradientTarget d_down) const;
  void backward_router() const;

  Libraries& libraries_;
  const TemplateBinding& op_;
  const Experts& experts_;
  const DecoderOffsets& offsets_;
  const BoundRegions regions_;
  const LibraryWorkspace library_;
  const Stream stream_;
  const std::int64_t tokens_, hidden_, width_, chunk_tokens_;
  RowPlaces order_;
  std::int64_t begin_ = 0, chunk_ = 0;  // tokens
};

void ExpertsOp::enter(std::int64_t begin) {
  begin_ = begin;
  chunk_ = std::min(chunk_tokens_, tokens_ - begin);
  expert_order(experts_, choice() + first_choice(), chunk_, order_, library_, stream_);
  mark(KernelId::expert_order);
}

void ExpertsOp::forward(bool makes_gate_up, bool makes_output) {
  if (makes_gate_up) route();
  for (std::int64_t begin = 0; begin < tokens_; begin += chunk_tokens_) {
    enter(begin);
    if (makes_gate_up) {
      gather(KernelId::expert_rows, at(Activation::normed), Activation::expert_input);
      make_gate_up();
    }
    if (makes_output) make_output();
  }
  if (makes_output && balances(op_.model->config)) add_to_balance();
}

void ExpertsOp::route() const {
  libraries_.matmul.forward(at(Activation::normed), weights(offsets_.router), floats(Activation::router_logits),
                            tokens_, experts_.count, hidden_, library_, stream_);
  mark(KernelId::router);
  expert_choice(experts_, floats(Activation::router_logits), tokens_, choice(), floats(Activation::expert_weights),
                stream_);
  mark(KernelId::expert_choice);
}

RowLabels ExpertsOp::row_labels() const {
  if (op_.batch.kind != BatchKind::packed) return {};
  return {op_.get<TemplateOperand::labels>(), op_.get<TemplateOperand::document_starts>(), op_.batch.sequence_length};
}

void ExpertsOp::add_to_balance() const {
  expert_balance(experts_, floats(Activation::router_logits), choice(), tokens_, row_labels(),
                 balance_at(op_, op_.get<TemplateOperand::input>()),
                 balance_at(op_, op_.get<TemplateOperand::output>()), library_, stream_);
  mark(KernelId::expert_balance);
}

/// The row of each choice of the chunk's tokens.
void ExpertsOp::gather(KernelId kernel, const std::uint16_t* of_tokens, Activation rows) const {
  expert_rows(experts_, order_, of_tokens + begin_ * hidden_, at(rows), chunk_, hidden_, stream_);
  mark(kernel);
}

void ExpertsOp::make_gate_up() const {
  grouped_forward(rows(), at(Activation::expert_input), gate_up_matrices(), gate_up(), 2 * width_, hidden_, library_,
                  stream_);
  mark(KernelId::experts_gate_up);
}

void ExpertsOp::make_output() const {
  swiglu_forward(gate_up(), at(Activation::product), rows().rows, width_, stream_);
  mark(KernelId::experts_swiglu);
  grouped_forward(rows(), at(Activation::product), down_matrices(), at(Activation::expert_output), hidden_, width_,
                  library_, stream_);
  mark(KernelId::experts_down);
  expert_sum(experts_, order_, at(Activation::expert_output), floats(Activation::expert_weights) + first_choice(),
             at(Activation::middle) + begin_ * hidden_, op_.get<TemplateOperand::output>() + begin_ * hidden_, chunk_,
             hidden_, stream_);
  mark(KernelId::expert_sum);
}

void ExpertsOp::backward() {
  if (gate_up_is_chunk()) route();
  GradientTarget d_gate_up = gradient_at(op_, offsets_.gate_up), d_down = gradient_at(op_, offsets_.down);
  for (std::int64_t begin = 0; begin < tokens_; begin += chunk_tokens_) {
    enter(begin);
    backward_chunk(d_gate_up, d_down);
    d_gate_up.accumulates = d_down.accumulates = true;
  }
  backward_router();
}

void ExpertsOp::backward_chunk(GradientTarget d_gate_up, GradientTarget d_down) const {
  gather(KernelId::expert_rows, at(Activation::normed), Activation::expert_input);
  if (gate_up_is_chunk()) make_gate_up();
  std::uint16_t* const d_rows = at(Activation::expert_output);
  gather(KernelId::expert_gradient_rows, op_.get<TemplateOperand::output_gradient>(), Activation::expert_output);
  grouped_input_gradient(rows(), d_rows, down_matrices(), at(Activation::d_product), hidden_, width_, library_,
                         stream_);
  mark(KernelId::experts_down_input_gradient);
  experts_swiglu_backward(order_, gate_up(), at(Activation::d_product),
                          floats(Activation::expert_weights) + first_choice(), at(Activation::product),
                          at(Activation::d_gate_up), floats(Activation::d_expert_weights) + first_choice(), rows().rows,
                          width_, stream_);
  mark(KernelId::experts_swiglu_backward);
  if (makes_gradients()) {
    grouped_weight_gradient(rows(), d_rows, at(Activation::product), d_down, offsets_.down_stride, hidden_, width_,
                            library_, stream_);
    mark(KernelId::experts_down_weight_gradient);
    grouped_weight_gradient(rows(), at(Activation::d_gate_up), at(Activation::expert_input), d_gate_up,
                            offsets_.gate_up_stride, 2 * width_, hidden_, library_, stream_);
    mark(KernelId::experts_gate_up_weight_gradient);
  }
  grouped_input_gradient(rows(), at(Activation::d_gate_up), gate_up_matrices(), d_rows, 2 * width_, hidden_, library_,
                         stream_);
  mark(KernelId::experts_gate_up_input_gradient);
  expert_sum(experts_, order_, d_rows, nullptr, nullptr, at(Activation::d_normed) + begin_ * hidden_, chunk_, hidden_,
             stream_);
  mark(KernelId::expert_gradient_sum);
}

void ExpertsOp::backward_router() const {
  const std::int64_t count = experts_.count;
  std::uint16_t* const high = at(Activation::d_router_logits);
  const SplitGradient d_logits{high, high + tokens_ * count};
  BalanceGradient balance;
  if (balances(op_.model->config))
    balance = {balance_at(op_, op_.get<TemplateOperand::output_gradient>()), row_labels()};
  expert_choice_backward(experts_, floats(Activation::router_logits), tokens_, choice(),
                         floats(Activation::expert_weights), floats(Activation::d_expert_weights), balance, d_logits,
                         stream_);
  mark(KernelId::expert_choice_backward);
  if (makes_gradients()) {
    GradientTarget d_router = gradient_at(op_, offsets_.router);
    libraries_.matmul.weight_gradient(d_logits.high, at(Activation::normed), d_router, tokens_, count, hidden_,
                                      library_, stream_);
    d_router.accumulates = true;
    // Below what a sum in bf16 would see.
    if (d_router.type == ElementType::fp32)
      libraries_.matmul.weight_gradient(d_logits.low, at(Activation::normed), d_router, tokens_, count, hidden_,
                                        library_, stream_);
    mark(KernelId::router_weight_gradient);
  }
  libraries_.matmul.add_input_gradient(d_logits.high, weights(offsets_.router), at(Activation::d_normed), tokens_,
                                       count, hidden_, library_, stream_);
  mark(KernelId::router_input_gradient);
}

}  // namespace

void experts_forward_cuda(Libraries& libraries, const TemplateBinding& binding, bool makes_gate_up, bool makes_output,
                          Stream stream) {
  ExpertsOp(libraries, binding, stream).forward(makes_gate_up, makes_output);
}

double* balance_at(const TemplateBinding& op, std::uint16_t* boundary) {
  return reinterpret_cast<double*>(reinterpret_cast<std::byte*>(boundary) +
                                   balance_offset_bytes(op.model->config, op.batch));
}

void pass_balance_on(const TemplateBinding& op, std::uint16_t* from, std::uint16_t* to, Stream stream) {
  if (balances(op.model->config))
    balance_pass_on(balance_at(op, from), balance_at(op, to), balance_elements(op.model->config), stream);
}

void experts_backward_cuda(Libraries& libraries, const TemplateBinding& binding, Stream stream) {
  ExpertsOp(libraries, binding, stream).backward();
}

}  // namespace penstock::exec
