// Whether the ids of a file of tokens are the model's own: two tokenizers with as many ids give them other meanings, and
// nothing else than the file that each lies in tells them apart.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "shared/data/token_file.h"

namespace penstock::exec {

/// Holds the hash that the file has of its tokenizer.json against the one in the first of the folders that has one.
/// Returns what is to be said where none has: that nothing could be compared; "" where it is the same one, or the file
/// does not say which it was made with. Throws InputError if it is another one, or cannot be read.
std::string check_tokenizer(const TokenFile& file, const std::vector<std::filesystem::path>& folders);

/// What is to be said where the bytes of `text` (for people) are the tokens of a model whose ids mean something else, for
/// one of the folders has a tokenizer.json; "" where none has.
std::string bytes_beside_tokenizer(const std::string& text, const std::vector<std::filesystem::path>& folders);

}  // namespace penstock::exec
