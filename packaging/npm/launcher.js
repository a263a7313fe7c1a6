#!/usr/bin/env node
// Runs the program that a package of this system carries: its input and output, every signal, and its end are this process's.
"use strict";

const { spawn } = require("node:child_process");
const { closeSync, openSync } = require("node:fs");
const { constants } = require("node:os");
const { isatty } = require("node:tty");

const system = `${process.platform}-${process.arch}`;
// The systems that have a package with the program.
const SYSTEMS = ["linux-x64", "linux-arm64"];

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
  if (libc !== undefined && found === undefined && SYSTEMS.includes(system)) {
    end(
      `portcullis-gateway has its program in another package, @portcullis-gateway/${system}, which is not installed here: ` +
        `install portcullis-gateway-${system}-VERSION.tgz together with this one, without --omit=optional.`,
    );
  }
  if (libc === undefined || found === undefined) {
    const without = process.platform === "linux" && libc === undefined ? `${system}, without glibc` : system;
    end(
      "portcullis-gateway carries a program for Linux with glibc 2.28 or newer on x64 and arm64, and none for this system " +
        `(${without}): run its container image instead, or build it from its source.`,
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

// Returns why the terminal of this process cannot be opened, or undefined if it can.
function terminalError() {
  try {
    closeSync(openSync("/dev/tty", "r"));
    return undefined;
  } catch (error) {
    return error.code;
  }
}

// The terminal is gone, or has hung up. Other errors do not show it.
function isTerminalGone() {
  return ["ENXIO", "EIO"].includes(terminalError());
}

// Whoever closes the terminal means to end the program, which is in another session and cannot see it: for it, SIGHUP only means to read
// the files again. What `nohup` has started goes on. Node no longer ignores SIGHUP then, but none of these three is a terminal.
const terminals = [0, 1, 2].filter((file) => isatty(file));
let terminalEndsIt = terminalError() === undefined && terminals.length > 0;
let hasTerminalEndedIt = false;
if (terminalEndsIt) {
  const checks = setInterval(() => {
    if (isTerminalGone()) {
      clearInterval(checks);
      // If no signal comes with it, as after `disown`, the program was meant to go on, and a later SIGHUP is for it.
      setTimeout(() => (terminalEndsIt = false), 1000).unref();
    }
  }, 2000);
  checks.unref();
}

let child;
for (const name of signals.values()) {
  try {
    process.on(name, () => pass(name));
  } catch {
    // This Node cannot catch it.
  }
}

function endWithTerminal() {
  hasTerminalEndedIt = true;
  child.kill("SIGTERM");
}

function pass(name) {
  if (name === "SIGTSTP") {
    // Ctrl-Z: both stop, and go on together.
    child.kill("SIGSTOP");
    process.kill(process.pid, "SIGSTOP");
    return;
  }
  if (name === "SIGHUP" && hasTerminalEndedIt) {
    // The shell sends it, and the system, too. A second SIGTERM would cut the requests that still run.
    return;
  }
  if (name === "SIGHUP" && terminalEndsIt) {
    if (isTerminalGone()) {
      endWithTerminal();
      return;
    }
    // A shell may send the signal a moment before the terminal is gone.
    setTimeout(() => {
      if (!hasTerminalEndedIt && isTerminalGone()) {
        endWithTerminal();
      }
    }, 1000).unref();
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
  if (isTerminalGone()) {
    // Node gives the terminal its settings back at its end, and aborts if it cannot. It leaves other files alone.
    for (const file of terminals) {
      closeSync(file);
      openSync("/dev/null", "r+");
    }
  }
  if (signal === null) {
    process.exit(code);
  }
  // It ends by the same signal.
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
  // Where the signal is not deadly for Node.
  setTimeout(() => process.exit(128 + constants.signals[signal]), 1000);
});
