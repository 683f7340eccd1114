// Says what a file is that was taken for safetensors and is none: what downloads, other programs and other formats
// leave under that name or in its place.
#pragma once

#include <string>
#include <string_view>

namespace penstock::exec {

/// Bytes of a file's start that tell all kinds apart (tar has its mark at 257).
inline constexpr std::size_t kForeignHeadBytes = 512;

/// What a file that begins with `head` is and what to do instead, to stand behind its name in a message ("is a GGUF
/// file
/// ...; take ..."); empty if it is of no kind known here.
std::string foreign_file(std::string_view head);

/// How to turn a pickle of PyTorch into safetensors, to stand behind a semicolon.
inline constexpr std::string_view kConvertPickle =
    "convert it where PyTorch and transformers are: "
    "AutoModelForCausalLM.from_pretrained(FOLDER, torch_dtype=\"auto\").save_pretrained(NEW_FOLDER)";

}  // namespace penstock::exec
