#include "decode/open_tokenizer.h"

#include <filesystem>

#include "base/mapped_file.h"
#include "decode/model_text.h"

namespace rafter::decode {

base::Result<text::Tokenizer> open_tokenizer(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code failed;
  if (fs::is_directory(path, failed)) {
    for (const char* name : {"tokenizer.json", "tokenizer.model"}) {
      if (const std::string file = (fs::path(path) / name).string(); fs::is_regular_file(file, failed)) {
        return open_tokenizer(file);
      }
    }
  }
  if (path.ends_with("tokenizer.json") || path.ends_with(".model")) {
    RAFTER_ASSIGN(const std::string content, base::read_text_file(path));
    return path.ends_with(".json") ? text::Tokenizer::from_json(content, path)
                                   : text::Tokenizer::from_sentencepiece(content, path);
  }
  RAFTER_ASSIGN(const format::Checkpoint checkpoint, format::Checkpoint::open(path));
  RAFTER_ASSIGN(const ModelText text, ModelText::from_checkpoint(checkpoint));
  return text.tokenizer();
}

}  // namespace rafter::decode
