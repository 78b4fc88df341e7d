package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// dist returns the folder of the release to test.
func dist(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("KELSON_RELEASE")
	if dir == "" {
		t.Skip("SKIPPED: KELSON_RELEASE does not name the folder of a release; make dist-test runs this test")
	}
	return dir
}

// unpacked unpacks the archive for this machine and returns the folder.
func unpacked(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	archive := filepath.Join(dist(t), fmt.Sprintf("kelson-%s-%s.tar.gz", runtime.GOOS, runtime.GOARCH))
	if out, err := exec.Command("tar", "-xzf", archive, "-C", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

// printed runs a program, which must succeed.
func printed(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// The checksums are those of all files.
func TestReleaseChecksums(t *testing.T) {
	dir := dist(t)
	sums, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
	require.NoError(t, err)
	listed := map[string]string{}
	for line := range strings.Lines(string(sums)) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		listed[name] = sum
	}
	err = fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || name == "SHA256SUMS" {
			return err
		}
		sum, err := checksum(filepath.Join(dir, name))
		if err == nil && listed[name] != sum {
			err = fmt.Errorf("%s has checksum %s, SHA256SUMS has %q", name, sum, listed[name])
		}
		delete(listed, name)
		return err
	})
	if err != nil || len(listed) > 0 {
		t.Errorf("%v; files that do not exist: %v", err, listed)
	}
}

// The archive has a program that prints its version, completions, manual pages, and the licenses of
// all modules in its bill of materials.
func TestReleaseArchive(t *testing.T) {
	dir := unpacked(t)
	version := printed(t, filepath.Join(dir, "kelson"), "version")
	if !regexp.MustCompile(`^kelson v\d+\.\d+\.\d+\S*, Kubernetes API v1\.\d+\.\d+, `).MatchString(version) {
		t.Errorf("kelson version prints %q", version)
	}
	for _, c := range completions {
		if info, err := os.Stat(filepath.Join(dir, c.file)); err != nil || info.Size() < 1000 {
			t.Errorf("completion for %s: %v, %v", c.shell, info, err)
		}
	}
	page, err := os.ReadFile(filepath.Join(dir, "man/man1/kelson-serve.1"))
	if err != nil || !strings.Contains(string(page), "kelson serve") ||
		strings.Contains(string(page), os.Getenv("HOME")+"/") {
		t.Errorf("manual page of serve: %v\n%.2000s", err, page)
	}
	table, err := os.ReadFile(filepath.Join(dir, "licenses", "licenses.csv"))
	require.NoError(t, err)
	bill, err := os.ReadFile(filepath.Join(dist(t),
		fmt.Sprintf("kelson-%s-%s.spdx.json", runtime.GOOS, runtime.GOARCH)))
	require.NoError(t, err)
	var document struct {
		Packages []struct{ Name, VersionInfo, LicenseDeclared string }
	}
	if err := json.Unmarshal(bill, &document); err != nil || len(document.Packages) < 100 {
		t.Fatalf("bill of materials: %d packages, %v", len(document.Packages), err)
	}
	for _, p := range document.Packages {
		if within(p.Name) {
			if p.LicenseDeclared != "Apache-2.0" || !strings.HasPrefix(version, "kelson "+p.VersionInfo+",") {
				t.Errorf("%s: license %s, version %s; want Apache-2.0 and that of the release", p.Name,
					p.LicenseDeclared, p.VersionInfo)
			}
			continue
		}
		if !strings.Contains(string(table), "\n"+p.Name+",") || p.LicenseDeclared == "NOASSERTION" {
			t.Errorf("%s: license %s; licenses.csv must have it, too", p.Name, p.LicenseDeclared)
		}
	}
}

// dpkg accepts the Debian package, and the program in it runs.
func TestReleaseDebianPackage(t *testing.T) {
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		t.Skip("SKIPPED: no dpkg-deb")
	}
	names, err := filepath.Glob(filepath.Join(dist(t), "kelson_*_"+runtime.GOARCH+".deb"))
	if err != nil || len(names) != 1 {
		t.Fatalf("%v, %v", names, err)
	}
	about := printed(t, "dpkg-deb", "--info", names[0])
	assert.Contains(t, about, "Package: kelson\n")
	dir := t.TempDir()
	printed(t, "dpkg-deb", "--extract", names[0], dir)
	for _, name := range []string{"usr/bin/kelson", "usr/bin/kubectl-kelson"} {
		if got := printed(t, filepath.Join(dir, name), "version"); !strings.HasPrefix(got, "kelson v") {
			t.Errorf("%s version prints %q", name, got)
		}
	}
	for _, name := range []string{"usr/share/man/man1/kelson-serve.1.gz",
		"usr/share/bash-completion/completions/kelson", "usr/share/doc/kelson/copyright"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
}

// The Krew manifest has the archives with their checksums.
func TestReleaseKrewManifest(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(dist(t), "kelson.yaml"))
	require.NoError(t, err)
	var manifest struct {
		Spec struct {
			Platforms []struct{ URI, SHA256 string }
		}
	}
	if err := yaml.Unmarshal(data, &manifest); err != nil || len(manifest.Spec.Platforms) == 0 {
		t.Fatalf("%v\n%s", err, data)
	}
	for _, p := range manifest.Spec.Platforms {
		if sum, err := checksum(filepath.Join(dist(t), filepath.Base(p.URI))); err != nil || sum != p.SHA256 {
			t.Errorf("%s: checksum %s, want %s; %v", p.URI, p.SHA256, sum, err)
		}
	}
}

// Krew installs the release's archive from its manifest.
func TestReleaseInstalledByKrew(t *testing.T) {
	dir, krew := dist(t), os.Getenv("KREW")
	if krew == "" {
		t.Skip("SKIPPED: KREW is not set to the krew binary")
	}
	root := t.TempDir()
	t.Setenv("KREW_ROOT", root)
	t.Setenv("KREW_NO_UPGRADE_CHECK", "1")
	printed(t, krew, "install", "--manifest", filepath.Join(dir, "kelson.yaml"), "--archive",
		filepath.Join(dir, fmt.Sprintf("kelson-%s-%s.tar.gz", runtime.GOOS, runtime.GOARCH)))
	if got := printed(t, filepath.Join(root, "bin", "kubectl-kelson"), "why", "--help"); !strings.Contains(got,
		"kubectl kelson why") {
		t.Errorf("kubectl kelson why --help prints\n%s", got)
	}
}

// The steps of the composite action install the release and start envtest's kube-apiserver. Bad
// checksums and unknown systems are errors.
func TestReleaseAction(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the action's variables are those of a Linux runner")
	}
	files := http.FileServer(http.Dir(dist(t)))
	damaged := false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if damaged && strings.HasSuffix(r.URL.Path, ".gz") {
			fmt.Fprint(w, "something else")
			return
		}
		http.StripPrefix("/v0.1.0", files).ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	runner := map[string]string{"os": "Linux", "arch": map[string]string{"amd64": "X64",
		"arm64": "ARM64"}[runtime.GOARCH]}
	inputs := map[string]string{"version": "v0.1.0", "url": server.URL, "kubernetes": "1.35"}

	got, out, err := runAction(t, inputs, runner)
	require.NoErrorf(t, err, "\n%s", out)
	if got["KELSON_EMULATED_VERSION"] != "1.35" || got["KUBEBUILDER_ASSETS"] == "" || got["PATH"] == "" {
		t.Errorf("the action sets %v", got)
	}
	for _, name := range []string{"kube-apiserver", "etcd", "kubectl"} {
		if _, err := os.Stat(filepath.Join(got["KUBEBUILDER_ASSETS"], name)); err != nil {
			t.Error(err)
		}
	}
	if version := printed(t, filepath.Join(got["PATH"], "kelson"), "version"); !strings.HasPrefix(version, "kelson v") {
		t.Errorf("kelson version prints %q", version)
	}

	damaged = true
	if _, out, err := runAction(t, inputs, runner); err == nil || !strings.Contains(out, "FAILED") {
		t.Errorf("a damaged archive: %v\n%s", err, out)
	}
	if _, out, err := runAction(t, inputs, map[string]string{"os": "Windows", "arch": "X64"}); err == nil ||
		!strings.Contains(out, "does not support Windows") {
		t.Errorf("on Windows: %v\n%s", err, out)
	}
}

var expression = regexp.MustCompile(`\$\{\{ (\S+) \}\}`)

// runAction runs the steps of action.yml as a runner does. It returns the environment that the
// action sets, with the last folder that it adds to PATH, and the output of the steps.
func runAction(t *testing.T, inputs, runner map[string]string) (env map[string]string, output string, err error) {
	t.Helper()
	data, err := os.ReadFile("../action.yml")
	require.NoError(t, err)
	var action struct {
		Inputs map[string]struct{ Default string }
		Runs   struct {
			Steps []struct {
				ID, If, Shell, Run string
				Env                map[string]string
			}
		}
	}
	require.NoError(t, yaml.UnmarshalStrict(data, &struct {
		Name, Description string
		Branding          any
		Inputs, Outputs   any
		Runs              any
	}{}))
	require.NoError(t, yaml.Unmarshal(data, &action))
	values := map[string]string{}
	for name, input := range action.Inputs {
		values["inputs."+name] = input.Default
	}
	for name, value := range inputs {
		values["inputs."+name] = value
	}
	for name, value := range runner {
		values["runner."+name] = value
	}
	temp := t.TempDir()
	for _, step := range action.Runs.Steps {
		if input, ok := strings.CutSuffix(step.If, " != ''"); ok && values[input] == "" {
			continue
		}
		cmd := exec.Command(step.Shell, "-e", "-c", step.Run)
		cmd.Env = append(os.Environ(), "RUNNER_TEMP="+temp, "GITHUB_ENV="+filepath.Join(temp, "env"),
			"GITHUB_PATH="+filepath.Join(temp, "path"), "GITHUB_OUTPUT="+filepath.Join(temp, step.ID))
		for name, value := range step.Env {
			cmd.Env = append(cmd.Env, name+"="+expression.ReplaceAllStringFunc(value, func(found string) string {
				known, ok := values[expression.FindStringSubmatch(found)[1]]
				if !ok {
					t.Errorf("%s is not defined", found)
				}
				return known
			}))
		}
		out, err := cmd.CombinedOutput()
		output += string(out)
		if err != nil {
			return nil, output, err
		}
		for name, value := range assignments(t, filepath.Join(temp, step.ID)) {
			values["steps."+step.ID+".outputs."+name] = value
		}
	}
	env = assignments(t, filepath.Join(temp, "env"))
	path, err := os.ReadFile(filepath.Join(temp, "path"))
	env["PATH"] = strings.TrimSpace(string(path))
	return env, output, err
}

// assignments reads lines of the form name=value.
func assignments(t *testing.T, name string) map[string]string {
	t.Helper()
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]string{}
	}
	require.NoError(t, err)
	defer f.Close()
	all := map[string]string{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), "="); ok {
			all[name] = value
		}
	}
	return all
}
