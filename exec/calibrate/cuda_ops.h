// The template ops of one workload on the device, kernel by kernel, through the very code that runs them in training:
// in a burst after an idle moment, without a pause (at the power limit), and in between.
//
// Operands are random, and what an op reads was made by the ops before it, as in a step. Include only where the CUDA
// headers are at hand.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "exec/calibrate/cuda_sample.h"
#include "exec/cuda/device_memory.h"
#include "exec/cuda/templates.h"
#include "shared/scenario/scenario.h"

namespace penstock::exec {

class CudaOps {
 public:
  /// Takes the memory and runs every op once, so that the libraries have loaded their kernels. Throws DoesNotFit.
  CudaOps(const Scenario& scenario, CudaTemplates& templates, Gate& gate, cudaStream_t stream);
  CudaOps(const CudaOps&) = delete;
  CudaOps& operator=(const CudaOps&) = delete;

  /// The ops one by one, after idling.
  void measure_burst(KernelTables& tables);
  /// Each op in the company that it has in a step: as many forwards, recomputes and backwards as the model has layers,
  /// over and over without a pause, timed after `settle_seconds`. A power limit acts within a tenth of a second, so
  /// that a stretch of light work runs at a higher clock than one of heavy work.
  void measure_sustained(KernelTables& tables, double settle_seconds);

  /// Time of the launch thread per kernel of a decoder layer.
  Measured launch_per_kernel();

  /// A layer's forward over and over for `seconds`, after idling: what it takes at first and in the end, and after how
  /// long it has gone 1 - 1/e of the way.
  struct Response {
    double burst_seconds = 0, full_seconds = 0, settle_seconds = 0;
  };
  Response measure_response(double seconds);
  /// The forward once the GPU has computed `duty` of the time for `seconds`, with a pause after each, and the duty that
  /// came out.
  struct Paced {
    double duty = 0, op_seconds = 0;
  };
  Paced measure_paced(double duty, double seconds);

 private:
  struct TimedOp {
    CalibrationOp op;
    TemplateBinding binding;
    std::size_t executions = 0;  // kernels, counts expanded
    bool gated = true;           // short enough to be enqueued whole behind a gate
    double burst_seconds = 0;    // once measured
  };

  void take_memory();
  void take_rows(const PackedRows& rows);
  void fill_weights(const Layer& layer, const DeviceMemory& weights);
  const std::byte* memory(TemplateOperand operand, LayerKind kind) const;
  TemplateBinding bind(const CalibrationOp& op);
  void run(const TimedOp& op) { templates_.run(op.binding, stream_); }
  const TimedOp* find(LayerKind kind, Pass pass, bool accumulates, ElementType gradient, std::size_t shape = 0) const;
  /// Calls run_op with the ops of a micro-batch in order, one layer's memory standing in for all.
  void run_micro_batch(bool accumulates, ElementType gradient, const std::function<void(const TimedOp&)>& run_op);
  void synchronize() const { PENSTOCK_CUDA(cudaStreamSynchronize(stream_)); }
  /// One execution, `marked` or not, held back where that is possible.
  void run_sample(const TimedOp& op, Sample& sample, bool marked);
  struct Samples {
    std::vector<Sample> whole, marked;
  };
  /// Returns the op's time.
  static double collect(const TimedOp& op, const Samples& samples, const std::function<void(const KernelTime&)>& add);

  Model model_;
  const std::vector<BatchShape> shapes_;  // calibration_shapes
  BatchShape batch_;                      // the first of them, which is the largest
  LayoutOptions layout_;
  CudaTemplates& templates_;
  Gate& gate_;
  cudaStream_t stream_;
  std::vector<TimedOp> ops_;
  const TimedOp *forward_ = nullptr, *recompute_ = nullptr, *backward_ = nullptr;  // of the largest decoder layer

  DeviceMemory embedding_, head_, tokens_, loss_;
  std::map<LayerKind, DeviceMemory> decoders_;              // weights of one layer of each kind
  DeviceMemory labels_, document_starts_, trained_tokens_;  // of packed rows
  DeviceMemory kv_, kv_gradient_;                           // of chunks
  DeviceMemory input_, output_, output_gradient_, input_gradient_;
  DeviceMemory kept_, recomputed_, workspace_, gradient_;
};

}  // namespace penstock::exec
