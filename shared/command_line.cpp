#include "shared/command_line.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <new>
#include <stdexcept>
#include <string_view>
#include <system_error>

#include "shared/error.h"
#include "shared/files.h"
#include "shared/harmless_text.h"
#include "shared/nearest_name.h"
#include "shared/standard_streams.h"

namespace penstock {
namespace {

/// "fit, simulate or list"
std::string alternatives(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i)
    text += (i == 0 ? "" : i + 1 == names.size() ? " or " : ", ") + names[i];
  return text;
}

std::vector<std::string> command_names(const CLI::App& program) {
  std::vector<std::string> names;
  for (const CLI::App* command : program.get_subcommands(std::function<bool(const CLI::App*)>{}))
    names.push_back(command->get_name());
  return names;
}

/// "--save" of all that has dashes.
std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

/// The argument that nobody understood: the first with dashes, else the first; empty if all were understood.
std::string not_understood(const CLI::App& program, int argc, char** argv) {
  const std::vector<std::string> left = program.remaining(true);
  std::string first;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (std::find(left.begin(), left.end(), argument) == left.end()) continue;
    if (argument.starts_with("-")) return argument;
    if (first.empty()) first = argument;
  }
  return first;
}

/// What is wrong with `argument`, and what was probably meant.
std::string stranger_text(const CLI::App& program, const std::string& argument) {
  const std::vector<CLI::App*> chosen = program.get_subcommands();
  const CLI::App& command = chosen.empty() ? program : *chosen.front();
  if (argument.starts_with("-")) {
    const std::string name = argument.substr(0, argument.find('='));
    const std::string nearest = nearest_name(name, option_names(command));
    return fmt::format("{} has no option {}{}", command.get_name(), name.substr(0, 60),
                       nearest.empty() ? "" : fmt::format("; did you mean {}?", nearest));
  }
  if (!chosen.empty())
    return fmt::format("{} takes no further argument \"{}\"; options begin with --", command.get_name(),
                       argument.substr(0, 200));
  const std::vector<std::string> names = command_names(program);
  const std::string nearest = nearest_name(argument, names);
  return fmt::format("there is no command \"{}\"; {}", argument.substr(0, 60),
                     nearest.empty() ? "commands are " + alternatives(names) : "did you mean " + nearest + "?");
}

/// What CLI11 says of a command line that it cannot parse.
std::string parse_error_text(const CLI::ParseError& error) {
  const std::string what = std::string(error.what()).substr(0, 300);
  constexpr std::string_view kTwice =
      ": At Most 1 required but received ";  // "--gpu: At Most 1 required but received 2"
  const std::size_t at = what.find(kTwice);
  if (at == std::string::npos) return what;
  return fmt::format("{} is given {} times; give it once", what.substr(0, at), what.substr(at + kTwice.size()));
}

/// `--save=` would take the next option for its value.
void refuse_bare_equals(int argc, char** argv) {
  for (int i = 1; i < argc; ++i)
    if (const std::string_view argument = argv[i];
        argument.starts_with("--") && argument.size() > 3 && argument.find('=') == argument.size() - 1)
      throw InputError(
          fmt::format("{}: expected a value behind the =, found none; leave the option away if none is "
                      "meant",
                      argument.substr(0, 60)));
}

/// An empty value would pass for an option that was not given: `--save "$FOLDER"` of a script whose variable is empty.
void refuse_empty_values(const CLI::App& program) {
  for (const CLI::App* command : program.get_subcommands())
    for (const CLI::Option* option : command->get_options())
      for (const std::string& value : option->results())
        if (value.empty())
          throw InputError(fmt::format(
              "{} {}: expected {}, found an empty text{}", command->get_name(), option->get_name(),
              option->get_type_name().empty() || option->get_type_name() == "TEXT" ? "a value"
                                                                                   : "a " + option->get_type_name(),
              option->get_positional() ? "" : "; leave the option away if none is meant"));
}

/// The command line as far as it fits a message.
std::string command_text(int argc, char** argv) {
  std::string text;
  for (int i = 1; i < argc; ++i) text += (i == 1 ? "" : " ") + std::string(argv[i]);
  return text.size() <= 200 ? text : text.substr(0, 197) + "...";
}

/// Whether the system refused a name that it was given, and not the work.
bool is_bad_name(int reason) {
  constexpr int kReasons[] = {ENAMETOOLONG, ELOOP, ENOTDIR, ENOENT, EACCES, EPERM, EINVAL};
  return std::find(std::begin(kReasons), std::end(kReasons), reason) != std::end(kReasons);
}

/// Without a path it was the current folder that could not be asked for.
std::string file_text(const std::filesystem::filesystem_error& error) {
  const std::string path = error.path1().string();
  if (path.empty())
    return fmt::format("the current folder: {}; change to one that is there and try again", error.code().message());
  return fmt::format("{}{}: {}", path.substr(0, 200), path.size() > 200 ? "..." : "",
                     why_not_read(error.path1(), error.code().value()));
}

constexpr const char* kOutOfMemory =
    "the memory of this process is used up; give it more (close other programs, raise the container's limit or "
    "`ulimit -v`), or ask for less: fewer sequences, fewer layers, a smaller file";

}  // namespace

CLI::App* add_command(CLI::App& program, const char* name, const char* what, const char* examples, bool& json) {
  CLI::App* command = program.add_subcommand(name, what);
  command->footer(examples);
  command->add_flag("--json", json, "the result as JSON, described in docs/commands.md");
  return command;
}

CLI::Validator catalogue_file(CatalogueKind kind) {
  return CLI::Validator(
      [kind](std::string& name) {
        name = named_file(kind, name).string();
        return std::string();
      },
      "");
}

CLI::Validator catalogue_subfolder() {
  return CLI::Validator(
      [](std::string& name) {
        name = named_folder(name).string();
        return std::string();
      },
      "");
}

CLI::Option* add_scenario(CLI::App* command, std::filesystem::path& scenario, const char* what) {
  return command
      ->add_option("SCENARIO", scenario,
                   fmt::format("scenario file (TOML), or the name of one of the catalogue{}", what))
      ->transform(catalogue_file(CatalogueKind::scenario))
      ->required();
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

Check one_of(std::vector<std::string> names) {
  return [names = std::move(names)](const std::string& value) -> std::string {
    if (std::find(names.begin(), names.end(), value) != names.end()) return "";
    const std::string nearest = nearest_name(value, names);
    return fmt::format("expected {}, found \"{}\"{}", alternatives(names), value.substr(0, 60),
                       nearest.empty() ? "" : fmt::format("; did you mean {}?", nearest));
  };
}

int run_chosen(CLI::App& program, int argc, char** argv, const Chosen& chosen) {
  program.require_subcommand(0, 1);
  const std::string& name = program.get_name();
  refuse_bare_equals(argc, argv);
  const auto wrong_usage = [&](const std::string& what) {
    return InputError(fmt::format("{}{} `{} --help` and `{} COMMAND --help` have examples", what,
                                  what.ends_with('?') ? "" : ";", name, name));
  };
  try {
    program.parse(argc, argv);
  } catch (const CLI::Success& help_or_version) {
    const int code = program.exit(help_or_version);
    if (!std::cout.flush()) throw std::runtime_error("standard output cannot be written");
    return code;
  } catch (const CLI::ParseError& error) {
    const std::string stranger = not_understood(program, argc, argv);
    const std::string what = stranger.empty() ? parse_error_text(error) : stranger_text(program, stranger);
    throw wrong_usage(what);
  } catch (const InputError&) {  // of a file; it may be what an option that is none was to have
    const std::string stranger = not_understood(program, argc, argv);
    if (!stranger.starts_with("-")) throw;
    throw wrong_usage(stranger_text(program, stranger));
  }
  if (!chosen)
    throw InputError(
        fmt::format("which command? {}; `{} --help` has examples", alternatives(command_names(program)), name));
  refuse_empty_values(program);
  int code = kExitFailed;
  try {
    code = chosen();
  } catch (const std::system_error& error) {
    if (std::ferror(stdout) == 0) throw;
    throw std::runtime_error("standard output cannot be written: " + error.code().message());
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout)) throw std::runtime_error("standard output cannot be written");
  return code;
}

int exit_code(int argc, char** argv, const char* program, const std::function<int()>& run) {
  const auto report = [&](std::string_view what, int code) {
    tell(fmt::format("{}: {}\n", program, harmless(what)));
    return code;
  };
  const auto out_of_memory = [&] {
    return report(fmt::format("{}: {}", command_text(argc, argv), kOutOfMemory), kExitFailed);
  };
  hold_standard_streams();
  ::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow further is an error of the write, like a full disk
  try {
    return run();
  } catch (const InputError& error) {
    return report(error.what(), kExitBadInput);
  } catch (const DoesNotFit& error) {
    return report(error.what(), kExitDoesNotFit);
  } catch (const std::filesystem::filesystem_error& error) {
    return report(file_text(error), is_bad_name(error.code().value()) ? kExitBadInput : kExitFailed);
  } catch (const std::bad_alloc&) {
    return out_of_memory();
  } catch (const std::length_error&) {  // a list that would be too long for any memory
    return out_of_memory();
  } catch (const std::exception& error) {
    return report(error.what(), kExitFailed);
  }
}

}  // namespace penstock
