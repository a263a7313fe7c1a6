#!/usr/bin/env node
// Runs the program that a package of this system carries: its input and output, every signal, and its end are this process's.
"use strict";

const { spawn } = require("node:child_process");
const { constants } = require("node:os");

const system = `${process.platform}-${process.arch}`;

function end(why) {
  process.stderr.write(why + "\n");
  process.exit(1);
}

// The version of glibc, such as 2.36. musl has none.
function glibc() {
  process.report.excludeNetwork = true;
  return process.report.getReport().header.glibcVersionRuntime;
}

function isOlder(version, wanted) {
  const [major, minor] = version.split(".").map(Number);
  const [wantedMajor, wantedMinor] = wanted.split(".").map(Number);
  return major < wantedMajor || (major === wantedMajor && minor < wantedMinor);
}

// Returns the program's path.
function program() {
  const libc = process.platform === "linux" ? glibc() : undefined;
  let found;
  try {
    found = require.resolve(`@portcullis-gateway/${system}/package.json`);
  } catch {
    found = undefined;
  }
  if (libc === undefined || found === undefined) {
    const without = process.platform === "linux" && libc === undefined ? `${system}, without glibc` : system;
    end(
      "portcullis-gateway carries a program for Linux with glibc 2.28 or newer on x64 and arm64, and none for this system " +
        `(${without}), or npm left out optional packages: run its container image instead, or build it from its source.`,
    );
  }
  const { glibc: wanted } = require(found);
  if (isOlder(libc, wanted)) {
    end(`The program of portcullis-gateway needs glibc ${wanted} or newer, and this system has ${libc}: run its container image instead.`);
  }
  return require("node:path").join(require("node:path").dirname(found), "bin", "portcullis");
}

// Nobody can catch the first two; the others are about this process itself.
const OWN = ["SIGKILL", "SIGSTOP", "SIGCHLD", "SIGBUS", "SIGFPE", "SIGILL", "SIGSEGV", "SIGTRAP", "SIGPROF"];

const signals = new Map();
for (const [name, number] of Object.entries(constants.signals)) {
  if (!OWN.includes(name) && !signals.has(number)) {
    signals.set(number, name);
  }
}

let child;
for (const name of signals.values()) {
  try {
    process.on(name, () => pass(name));
  } catch {
    // This Node cannot catch it.
  }
}

function pass(name) {
  if (name === "SIGTSTP") {
    // Ctrl-Z: both stop, and go on together.
    child.kill("SIGSTOP");
    process.kill(process.pid, "SIGSTOP");
    return;
  }
  child.kill(name);
}

// `npx` leaves no command on the path, so `init` prints this one in the commands to go on with. Nothing else reads the variable.
const again = process.env.npm_command === "exec" ? { PORTCULLIS_COMMAND: "npx portcullis-gateway" } : {};

// A session of its own: a terminal sends Ctrl-C to all processes in front of it, and the program must get it once. A second one
// would cut the requests that still run.
child = spawn(program(), process.argv.slice(2), { argv0: "portcullis", stdio: "inherit", detached: true, env: { ...process.env, ...again } });
child.on("error", (error) => end(`${error.path || "portcullis"} cannot be run: ${error.message}`));
child.on("exit", (code, signal) => {
  if (signal === null) {
    process.exit(code);
  }
  // It ends by the same signal.
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
  // Where the signal is not deadly for Node.
  setTimeout(() => process.exit(128 + constants.signals[signal]), 1000);
});
