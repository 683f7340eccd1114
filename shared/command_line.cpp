#include "shared/command_line.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "shared/error.h"

namespace penstock {
namespace {

/// "fit, simulate or list"
std::string command_names(const CLI::App& program) {
  const std::vector<const CLI::App*> commands = program.get_subcommands(std::function<bool(const CLI::App*)>{});
  std::string names;
  for (std::size_t i = 0; i < commands.size(); ++i)
    names += (i == 0 ? "" : i + 1 == commands.size() ? " or " : ", ") + commands[i]->get_name();
  return names;
}

int report(const char* program, const std::exception& error, int code) {
  fmt::print(stderr, "{}: {}\n", program, error.what());
  return code;
}

}  // namespace

CLI::App* add_command(CLI::App& program, const char* name, const char* what, const char* examples, bool& json) {
  CLI::App* command = program.add_subcommand(name, what);
  command->footer(examples);
  command->add_flag("--json", json, "the result as JSON, described in docs/commands.md");
  return command;
}

void add_profile(CLI::App* command, std::filesystem::path& profile) {
  command->add_option("--profile", profile, "measured profile of the machine, instead of the scenario's")
      ->type_name("FILE");
}

void add_overrides(CLI::App* command, std::vector<std::string>& overrides) {
  command->add_option("--set", overrides, "change one value of the scenario, as policy.name=megatrain; may be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
}

std::string refuse_nan(const std::string& text) {
  return std::isnan(std::strtod(text.c_str(), nullptr)) ? "expected a number, found " + text : "";
}

int run_chosen(CLI::App& program, int argc, char** argv, const Chosen& chosen) {
  program.require_subcommand(0, 1);
  const std::string& name = program.get_name();
  try {
    program.parse(argc, argv);
  } catch (const CLI::Success& help_or_version) {
    return program.exit(help_or_version);
  } catch (const CLI::ParseError& error) {
    throw InputError(fmt::format("{}; `{} --help` and `{} COMMAND --help` have examples",
                                 std::string_view(error.what()).substr(0, 200), name, name));
  }
  if (!chosen)
    throw InputError(fmt::format("which command? {}; `{} --help` has examples", command_names(program), name));
  const int code = chosen();
  if (std::fflush(stdout) != 0 || std::ferror(stdout)) throw std::runtime_error("standard output cannot be written");
  return code;
}

int exit_code(const char* program, const std::function<int()>& run) {
  try {
    return run();
  } catch (const InputError& error) {
    return report(program, error, kExitBadInput);
  } catch (const DoesNotFit& error) {
    return report(program, error, kExitDoesNotFit);
  } catch (const std::exception& error) {
    return report(program, error, kExitFailed);
  }
}

}  // namespace penstock
