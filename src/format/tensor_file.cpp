#include "format/tensor_file.h"

#include "format/errors.h"

namespace rafter::format {
namespace {

base::Error misuse(std::string where, std::string what) {
  return {base::ErrorCode::invalid_argument, std::move(what), std::move(where), ""};
}

}  // namespace

base::Result<TensorFile> TensorFile::create(const std::string& path, std::string_view header,
                                            const std::vector<TensorPlace>& places, uint64_t file_bytes) {
  TensorFile file;
  file.path_ = path;
  for (const TensorPlace& place : places)
    file.tensors_.emplace(place.name, Progress{place.offset, place.bytes, 0});
  RAFTER_ASSIGN(file.file_, base::OutputFile::create(path, file_bytes));
  RAFTER_TRY(file.file_.write_at(0, std::as_bytes(std::span(header))));
  return file;
}

base::Status TensorFile::append(std::string_view name, std::span<const std::byte> bytes) {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) return misuse(where_in(path_, name), "the tensor was not declared");
  Progress& tensor = found->second;
  if (bytes.size() > tensor.bytes - tensor.written) {
    return misuse(where_in(path_, name), fmt::format("more than the tensor's {} bytes", tensor.bytes));
  }
  RAFTER_TRY(file_.write_at(tensor.offset + tensor.written, bytes));
  tensor.written += bytes.size();
  return {};
}

base::Status TensorFile::finish_blocking() {
  for (const auto& [name, tensor] : tensors_) {
    if (tensor.written != tensor.bytes) {
      return misuse(where_in(path_, name),
                    fmt::format("{} of {} bytes written", tensor.written, tensor.bytes));
    }
  }
  return file_.finish_blocking();
}

}  // namespace rafter::format
