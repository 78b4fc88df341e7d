package scaffold

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// next is a later version of the template: one file is added, one removed, and several changed.
func next(t *testing.T) blueprint {
	t.Helper()
	all := currentTemplate()
	change := func(name, old, new string) {
		t.Helper()
		data := string(all[name])
		if !strings.Contains(data, old) {
			t.Fatalf("%s lacks %q", name, old)
		}
		all[name] = []byte(strings.Replace(data, old, new, 1))
	}
	all["project/CONTRIBUTING.md"] = []byte("# {{.ProjectName}}\n")
	delete(all, "project/.dockerignore")
	change("project/Makefile", "##@ Build\n", "##@ Build it\n")
	change("project/cmd/main.go.tmpl", "// Command", "// Program")
	change("kind/api/INGROUP/VERSION/KIND_types.go.tmpl", "// foo is an example. Replace",
		"// foo is only an example. Replace")
	return all
}

// An upgrade needs a git repository without uncommitted files, and merges the new template with the
// project's own edits. An upgrade to the same version changes nothing.
func TestUpgradeMergesThreeWays(t *testing.T) {
	source, err := SourceOf("", "")
	require.NoError(t, err)
	dir := t.TempDir()
	do := func(_ []Change, err error) {
		t.Helper()
		require.NoError(t, err)
	}
	do(Init(InitOptions{Dir: dir, Domain: "example.com", Repo: "example.com/p", Name: "p", Source: source}))
	do(CreateAPI(dir, API{Group: "webapp", Version: "v1", Kind: "Welcome", Resource: true, Controller: true}))
	do(CreateAPI(dir, API{Group: "webapp", Version: "v2", Kind: "Welcome", Resource: true}))
	do(CreateWebhook(dir, Webhook{Group: "webapp", Version: "v1", Kind: "Welcome", Defaulting: true, Conversion: true}))

	read := func(name string) string {
		t.Helper()
		data, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		return string(data)
	}
	edit := func(name, old, new string) {
		t.Helper()
		before := read(name)
		after := strings.Replace(before, old, new, 1)
		if before == after {
			t.Fatalf("%s lacks %q", name, old)
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(after), 0o644))
	}
	edit("Makefile", "KELSON         ?= kelson", "KELSON         ?= ../kelson")
	edit("api/v1/welcome_types.go", "// foo is an example. Replace", "// foo is mine. Replace")
	edit("cmd/main.go", "operator.Main(", "operator.Main( // all of it")
	require.NoError(t, os.Remove(filepath.Join(dir, "hack/boilerplate.go.txt")))
	to := next(t)
	templates := func(version int) (blueprint, error) {
		if version == templateVersion+1 {
			return to, nil
		}
		return templateOf(version)
	}

	// Upgrade refuses projects outside of git, and those with uncommitted files.
	if _, err := upgrade(dir, source, false, templateVersion+1, templates); err == nil ||
		!strings.Contains(err.Error(), "not in git") {
		t.Fatalf("outside of git: %v", err)
	}
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	git("init", "-q")
	if _, err := upgrade(dir, source, false, templateVersion+1, templates); err == nil ||
		!strings.Contains(err.Error(), "not committed") {
		t.Fatalf("not committed: %v", err)
	}
	git("add", ".")
	git("commit", "-q", "-m", "all")

	// An upgrade to the same version changes nothing.
	if done, err := Upgrade(dir, source, false); err != nil || len(done.Changes) > 0 {
		t.Fatalf("%+v %v", done, err)
	}
	done, err := upgrade(dir, source, false, templateVersion+1, templates)
	require.NoError(t, err)
	assert.Slicef(t, done.Conflicts, []string{"api/v1/welcome_types.go"}, "conflicts in")
	for name, parts := range map[string][]string{
		"Makefile":                {"?= ../kelson", "##@ Build it"},
		"cmd/main.go":             {"// Program p", "operator.Main( // all of it", "controller.WelcomeController()"},
		"CONTRIBUTING.md":         {"# p"},
		"api/v2/welcome_types.go": {"// foo is only an example. Replace"},
		"api/v1/welcome_types.go": {"<<<<<<< yours\n\t// foo is mine. Replace", ">>>>>>> template"},
		"PROJECT":                 {fmt.Sprint("template: ", templateVersion+1)},
	} {
		for _, part := range parts {
			if text := read(name); !strings.Contains(text, part) {
				t.Errorf("%s lacks %q:\n%s", name, part, text)
			}
		}
	}
	for _, name := range []string{".dockerignore", "hack/boilerplate.go.txt"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			t.Errorf("%s is there", name)
		}
	}
	git("add", ".")
	git("commit", "-q", "-m", "upgraded")
	_, err = Upgrade(dir, source, false)
	assert.ErrorContainsf(t, err, "newer kelson", "with an older kelson")
}

// A commit that fails after it has changed files restores them.
func TestFailedCommitRestoresFiles(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]fs.FileMode{"a.sh": 0o755, "b.txt": 0o600} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(name), mode))
	}
	st := newStage(dir)
	st.remove("a.sh")
	st.write("b.txt", []byte("changed"))
	st.write("c", []byte("cannot be, because c/d needs a folder c"))
	st.write("c/d", []byte("new"))
	if _, err := st.commit(); err == nil {
		t.Fatal("it was written")
	}
	for name, mode := range map[string]fs.FileMode{"a.sh": 0o755, "b.txt": 0o600} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		info, statErr := os.Stat(filepath.Join(dir, name))
		if err := errors.Join(err, statErr); err != nil || string(data) != name || info.Mode().Perm() != mode {
			t.Errorf("%s: %q, %v", name, data, err)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("%v is left: %v", entries, err)
	}

	lost := filepath.Join(dir, "no-such-folder", "a.sh")
	err := restore(lost, []byte("a"), 0o644)
	assert.ErrorContainsf(t, err, "restore "+lost, "a file that can't be restored is not named")
}

// A project's folder may have a name with brackets.
func TestGlobInAFolderWithBrackets(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "p[1]")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "api"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "api", "a.go"), nil, 0o644))
	assert.Slice(t, newStage(dir).glob("api/*.go"), []string{"api/a.go"})
}

// A commit that fails half-way leaves the disk unchanged.
func TestFailedCommitChangesNothing(t *testing.T) {
	if os.Getuid() == 0 {
		t.Log("root can write to read-only folders, so a file blocks the path of a folder")
	}
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "b"), []byte("a file"), 0o644))
	st := newStage(dir)
	st.write("a/new.txt", []byte("new"))
	st.write("b/c.txt", []byte("cannot be"))
	if _, err := st.commit(); err == nil {
		t.Fatal("it was written")
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("%v is left: %v", entries, err)
	}
}
