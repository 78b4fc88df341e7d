package adopt

import (
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Build is a call of go build that makes a program.
type Build struct {
	// Source is the file and line of the call, relative to the project.
	Source string
	// Main is the absolute path of the main package's folder.
	Main string
	// Output is the name of the program: the last element of the path after -o, or of Main.
	Output string
	// Tags are its build tags, separated by commas.
	Tags string
}

// Program returns how a project builds the program of its container image: of the calls of go build
// in its Dockerfile and Makefile, the one whose output is the Dockerfile's entry point, otherwise
// the one with the output "manager". It returns nil if there is no such call.
func Program(dir string) (*Build, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	f := &finder{dir: dir, seen: map[string]bool{}, read: map[string]bool{}}
	builds, entry := f.dockerfile(filepath.Join(dir, "Dockerfile"))
	m, err := f.makefile()
	if err != nil {
		return nil, err
	}
	if m != nil {
		for _, line := range m.lines {
			builds = append(builds, f.builds(m.expand(strings.TrimLeft(line.text, "@+- "), 0), line.source)...)
		}
	}
	for _, name := range []string{entry, "manager"} {
		if at := slices.IndexFunc(builds, func(b Build) bool { return b.Output == name }); name != "" && at >= 0 {
			return &builds[at], nil
		}
	}
	return nil, nil
}

// dockerfile returns the calls of go build in a Dockerfile and the name of its last entry point.
func (f *finder) dockerfile(name string) (builds []Build, entry string) {
	for _, i := range instructions(name) {
		switch i.name {
		case "RUN":
			builds = append(builds, f.builds(i.rest, f.source(name, i.line))...)
		case "ENTRYPOINT":
			entry = entrypoint(i.rest)
		}
	}
	return builds, entry
}

// instruction is an instruction of a Dockerfile.
type instruction struct {
	name string // in upper case
	rest string
	line int
}

// instructions returns the instructions of a Dockerfile; none if it cannot be read.
func instructions(name string) (all []instruction) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil
	}
	lines := strings.Split(string(data), "\n")
	for i := 0; i < len(lines); i++ {
		at, line := i+1, strings.TrimSpace(lines[i])
		for strings.HasSuffix(line, `\`) && i+1 < len(lines) {
			i++
			line = strings.TrimSuffix(line, `\`) + " " + strings.TrimSpace(lines[i])
		}
		name, rest, _ := strings.Cut(line, " ")
		all = append(all, instruction{strings.ToUpper(name), strings.TrimSpace(rest), at})
	}
	return all
}

// entrypoint returns the name of the program that an ENTRYPOINT instruction runs. It skips an init
// process that ends its own arguments with --.
func entrypoint(text string) string {
	var words []string
	if json.Unmarshal([]byte(text), &words) != nil {
		words = strings.Fields(text)
	}
	if at := slices.Index(words, "--"); at >= 0 {
		words = words[at+1:]
	}
	if len(words) == 0 {
		return ""
	}
	return path.Base(words[0])
}

// builds returns the calls of go build in a line of a shell whose package is a folder of the
// project.
func (f *finder) builds(line, source string) (all []Build) {
	dir := f.dir
	for _, words := range commands(line, func(string) string { return unresolved }) {
		dir = changed(dir, words)
		at := slices.Index(words, "build")
		if at < 1 || unknown(dir) {
			continue
		}
		// the go command, a wrapper for other platforms such as xx-go, or a variable with its path
		if tool := path.Base(words[at-1]); tool != "go" && !strings.HasSuffix(tool, "-go") && !unknown(tool) {
			continue
		}
		if b, ok := parseBuild(words[at+1:], dir); ok {
			b.Source = source
			all = append(all, b)
		}
	}
	return all
}

// parseBuild parses the arguments of go build in a folder.
func parseBuild(args []string, dir string) (b Build, ok bool) {
	for i := 0; i < len(args); i++ {
		flag, isFlag := strings.CutPrefix(args[i], "-")
		flag = strings.TrimPrefix(flag, "-")
		name, value, assigned := strings.Cut(flag, "=")
		switch {
		case isFlag && slices.Contains([]string{"o", "tags", "ldflags", "gcflags", "asmflags", "mod", "modfile", "p",
			"buildmode", "installsuffix", "overlay"}, name):
			if !assigned && i+1 < len(args) {
				i++
				value = args[i]
			}
			if name == "o" {
				b.Output = path.Base(value)
			} else if name == "tags" && !unknown(value) {
				b.Tags = value
			}
		case isFlag:
		case unknown(args[i]):
			return b, false
		default:
			b.Main = args[i]
		}
	}
	if b.Main == "" {
		b.Main = "."
	}
	if strings.HasSuffix(b.Main, ".go") {
		b.Main = path.Dir(b.Main)
	}
	if !filepath.IsAbs(b.Main) {
		b.Main = filepath.Join(dir, filepath.FromSlash(b.Main))
	}
	if b.Output == "" || unknown(b.Output) {
		b.Output = filepath.Base(b.Main)
	}
	info, err := os.Stat(b.Main)
	return b, err == nil && info.IsDir()
}
