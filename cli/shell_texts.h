// Completions for shells and a manual page, generated from the commands and options.
#pragma once

#include <CLI/App.hpp>
#include <string>

namespace llmsim::cli {

// A script that completes commands, options, and names of models and hardware, for "bash", "zsh" or
// "fish".  Throws Error for another shell.
std::string completion(const CLI::App& program, const std::string& shell);

// A page in the format of man(7): every command with its options.
std::string manual_page(const CLI::App& program, const std::string& version);

// Adds `llmsim completion SHELL` and `llmsim man`.
void add_shell_texts(CLI::App& program, const std::string& version, int& status);

}  // namespace llmsim::cli
