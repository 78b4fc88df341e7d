// Package release returns the release of Kelson that this binary is.
package release

import "runtime/debug"

// version is the semantic version of a release, such as v0.1.0. The linker sets it (make dist).
var version string

// Published returns the version under which the modules of this binary are published, or "" for a
// development build. Binaries of make dist and of go install kelson.dev/cmd/kelson@VERSION have a
// version.
func Published() string {
	if version != "" {
		return version
	}
	// A main module has a checksum only if it was downloaded.
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Sum != "" {
		return info.Main.Version
	}
	return ""
}

// Version returns the version of a release or, for a development build, the git revision.
func Version() string {
	if v := Published(); v != "" {
		return v
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return "devel-" + s.Value[:12]
		}
	}
	return "devel"
}
