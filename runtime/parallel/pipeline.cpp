#include "runtime/parallel/pipeline.h"

#include <utility>

#include <ATen/ATen.h>

#include "runtime/library/memory_meter.h"

namespace llmsim::runtime {
namespace {

MeteredDevice metered_kind(c10::Device device) {
  return device.is_meta() ? MeteredDevice::Meta : MeteredDevice::Cpu;
}

}  // namespace

at::Tensor StageLink::receive() const {
  at::Tensor tensor = at::empty(message_.sizes, message_.options);
  group_->receive(tensor, from_);
  return tensor;
}

void StageLink::send(at::Tensor tensor) {
  if (static_cast<int>(sent_.size()) == under_way_) release_oldest();
  auto pending = group_->start_send(tensor, to_);
  sent_.push_back({.tensor = std::move(tensor), .pending = std::move(pending)});
}

void StageLink::finish() {
  while (!sent_.empty()) release_oldest();
}

void StageLink::release_oldest() {
  sent_.front().pending->wait();
  sent_.pop_front();
}

Pipeline::Pipeline(const sim::PipelineShape& shape, const RankGroups& groups,
                   std::vector<ModelChunk*> chunks, const Message& message)
    : shape_(shape),
      stage_(groups.place(sim::GroupKind::Pipeline)),
      chunks_(std::move(chunks)),
      device_(message.options.device()),
      forward_link_(groups.of(sim::GroupKind::Pipeline), (stage_ + shape.stages - 1) % shape.stages,
                    (stage_ + 1) % shape.stages, message, sim::messages_under_way(shape)),
      backward_link_(groups.backward_pipeline(), (stage_ + 1) % shape.stages,
                     (stage_ + shape.stages - 1) % shape.stages, message,
                     sim::messages_under_way(shape)),
      tapes_(chunks_.size() * static_cast<std::size_t>(shape.num_microbatches)) {}

ChunkTape& Pipeline::tape(const sim::PipelinePass& pass) {
  return tapes_[static_cast<std::size_t>(pass.chunk * shape_.num_microbatches + pass.microbatch)];
}

PipelineResult Pipeline::run(const std::vector<MicroBatch>& batches, const PassDone& pass_done) {
  PipelineResult result;
  result.loss = at::zeros({}, at::TensorOptions(at::kFloat).device(device_));
  bool turned = false;
  for (const sim::PipelinePass& pass : sim::stage_order(shape_, stage_)) {
    const MicroBatch& batch = batches[static_cast<std::size_t>(pass.microbatch)];
    if (pass.backward() && !std::exchange(turned, true))
      result.bytes_after_forward = held_bytes(metered_kind(device_)).now;
    if (pass.backward()) {
      backward(pass, batch);
    } else {
      forward(pass, batch, result.loss);
    }
    if (pass_done) pass_done(pass.backward());
  }
  forward_link_.finish();
  backward_link_.finish();
  return result;
}

void Pipeline::forward(const sim::PipelinePass& pass, const MicroBatch& batch, at::Tensor& loss) {
  at::Tensor input = first(pass.chunk) ? at::Tensor() : forward_link_.receive();
  at::Tensor output =
      chunks_[static_cast<std::size_t>(pass.chunk)]->forward(std::move(input), batch, tape(pass));
  if (last(pass.chunk)) {
    loss.add_(output);
  } else {
    forward_link_.send(std::move(output));
  }
}

void Pipeline::backward(const sim::PipelinePass& pass, const MicroBatch& batch) {
  at::Tensor gradient = last(pass.chunk) ? at::Tensor() : backward_link_.receive();
  const bool last_of_step = pass.microbatch + 1 == shape_.num_microbatches;
  gradient = chunks_[static_cast<std::size_t>(pass.chunk)]->backward(
      std::move(gradient), batch, std::move(tape(pass)), last_of_step);
  if (!first(pass.chunk)) backward_link_.send(std::move(gradient));
}

}  // namespace llmsim::runtime
