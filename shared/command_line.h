// What both programs do with their command line: options that they share, parsing, and where exceptions end.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "shared/catalogue.h"

namespace penstock {

/// The command that was chosen, to be run once everything is parsed; its callback sets it.
using Chosen = std::function<int()>;

/// A subcommand with --json. `examples` stand below its help.
CLI::App* add_command(CLI::App& program, const char* name, const char* what, const char* examples, bool& json);

/// SCENARIO: a file, or one of the catalogue by its name (shared/catalogue.h).
CLI::Option* add_scenario(CLI::App* command, std::filesystem::path& scenario, const char* what = "");
/// For options that name a file of the catalogue: puts its path in the place of its name.
CLI::Validator catalogue_file(CatalogueKind kind);
CLI::Validator catalogue_subfolder();

/// --profile and --set, which change what a scenario file says.
void add_profile(CLI::App* command, std::filesystem::path& profile);
void add_overrides(CLI::App* command, std::vector<std::string>& overrides);

/// A check for numbers: CLI::Range lets "nan" pass, which is neither below nor above.
std::string refuse_nan(const std::string& text);

/// A check for options of a few values: refuses any other, naming the nearest.
using Check = std::function<std::string(const std::string&)>;
Check one_of(std::vector<std::string> names);

/// Parses and runs the command. No option takes an empty value. Returns its exit code, or that of --help and --version.
/// Throws InputError for bad usage, std::runtime_error if standard output cannot be written.
int run_chosen(CLI::App& program, int argc, char** argv, const Chosen& chosen);

/// `run`, or for what it throws one line "PROGRAM: ..." on standard error and the exit code of shared/error.h. What the
/// standard library throws is put into words: no memory, a name that the file system refuses.
int exit_code(int argc, char** argv, const char* program, const std::function<int()>& run);

}  // namespace penstock
