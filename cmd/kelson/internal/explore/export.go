package explore

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"go/format"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
	"unicode"

	"kelson.dev/lab/explore"
	"kelson.dev/lab/explored"
)

// testFolder is the default folder for tests of alarms, in the project.
const testFolder = "test/explore"

// exporter writes alarms as Go tests of a project.
type exporter struct {
	project string // its folder
	folder  string // of the tests; relative to the project's, or absolute
	// flags and args are those of a process: flags of kelson explore, and arguments of the
	// operator.
	flags, args []string
	former      string // the absolute path of the former version; "" for none
}

// testSource is a test that replays a plan. It uses only Go's standard library, because projects do
// not require the module of lab/explore. The go command caches results of tests; it sees that the
// test reads the project's folders, and runs it again when a file has changed.
var testSource = template.Must(template.New("").Funcs(template.FuncMap{"comment": comment}).Parse(`package {{.Package}}

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// {{.Name}} replays a plan of faults that kelson explore has found. The operator must
// survive it:
//
{{comment .Plan}}
//
// When the test was written, the operator did not:
//
{{comment .Finding}}
//
// The test needs the kelson binary, from the environment variable KELSON or from PATH, and no
// cluster.
func {{.Name}}(t *testing.T) {
	const project = {{printf "%q" .Project}}
	// The go command runs the test again when a file in these folders has changed.
	if err := filepath.WalkDir(project, func(_ string, _ fs.DirEntry, err error) error { return err }); err != nil {
		t.Fatal(err)
	}
	kelson := os.Getenv("KELSON")
	if kelson == "" {
		kelson = "kelson"
	}
	const plan = {{printf "%q" .Plan}}
	if output, err := exec.Command(kelson, "explore", project, "--generate=false", "--plan", plan{{range .Extra}}, {{printf "%q" .}}{{end}}).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
}
`))

// export writes the test of an alarm, and returns a message and the path of the test's file. It
// does not overwrite an existing test.
func (e *exporter) export(alarm explore.Message) (what, shown string, err error) {
	folder := e.folder
	if !filepath.IsAbs(folder) {
		folder = filepath.Join(e.project, folder)
	}
	back, err := filepath.Rel(folder, e.project)
	if err != nil {
		return "", "", err
	}
	words := planWords(alarm.Plan)
	name := "Test"
	for _, word := range words {
		name += strings.ToUpper(word[:1]) + word[1:]
	}
	var b strings.Builder
	extra := slices.Clone(e.flags)
	if e.former != "" && explore.NeedsFormer(alarm.Plan) {
		extra = append(extra, "--former", e.former)
	}
	if len(e.args) > 0 {
		extra = append(append(extra, "--"), e.args...)
	}
	if err := testSource.Execute(&b, map[string]any{"Extra": extra, "Package": "explore_test", "Name": name,
		"Project": filepath.ToSlash(back),
		"Plan":    alarm.Plan, "Finding": alarm.Finding}); err != nil {
		return "", "", err
	}
	source, err := format.Source([]byte(b.String()))
	if err != nil {
		return "", "", err
	}
	base := filepath.Join(folder, strings.Join(words, "_"))
	file := base + "_test.go"
	shown = filepath.Join(e.folder, filepath.Base(file))
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", "", err
	}
	if err := writeFailure(base+".json", alarm.Failure); err != nil {
		return "", "", err
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Sprintf("test: %s exists", shown), shown, nil
	} else if err != nil {
		return "", "", err
	}
	if _, err := f.Write(source); err != nil {
		return "", "", errors.Join(err, f.Close())
	}
	return fmt.Sprintf("test: %s in %s", name, shown), shown, f.Close()
}

// writeFailure writes the data of an alarm, a Failure of kelson.dev/lab/explored, to a file. It
// replaces the file of an earlier exploration, whose steps may differ.
func writeFailure(file string, failure *explored.Failure) error {
	if failure == nil {
		return nil
	}
	data, err := json.MarshalIndent(failure, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(data, '\n'), 0o644)
}

// planWords returns words that identify a plan: those of its first fault and, if there are others
// or the fault has a value, which may differ in other characters only, a part of its hash.
func planWords(plan string) []string {
	first, _, more := strings.Cut(plan, ";")
	words := strings.FieldsFunc(strings.ReplaceAll(first, "*", "-any"), func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
	if more || strings.Contains(first, "=") {
		words = append(words, fmt.Sprintf("%x", sha256.Sum256([]byte(plan)))[:8])
	}
	return words
}

// comment returns text as indented lines of a comment, which documentation shows unchanged.
func comment(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight("//\t"+line, " \t")
	}
	return strings.Join(lines, "\n")
}
