package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// smallProject writes a project whose program requires one small module: images are built with
// -trimpath, for which the go command compiles all packages again.
func smallProject(t *testing.T) (dir string) {
	t.Helper()
	sums, err := os.ReadFile("../../go.sum")
	require.NoError(t, err)
	dir = t.TempDir()
	version := regexp.MustCompile(`(?m)^github\.com/spf13/pflag (v[^/ ]+) h1:`).FindStringSubmatch(string(sums))
	if version == nil {
		t.Fatal("go.sum lacks github.com/spf13/pflag")
	}
	require.Files(t, dir, map[string]string{
		"PROJECT":                           "domain: example.com\nlayout: [go.kubebuilder.io/v4]\nrepo: example.com/small\nversion: \"3\"\n",
		"go.mod":                            "module example.com/small\n\ngo 1.26\n\nrequire github.com/spf13/pflag " + version[1] + "\n",
		"go.sum":                            string(sums),
		"cmd/main.go":                       "package main\n\nimport \"github.com/spf13/pflag\"\n\nfunc main() { pflag.Parse() }\n",
		"config/samples/kustomization.yaml": "resources: []\n",
	})
	return dir
}

// kelson image writes an archive and bills of materials, the same ones each time.
func TestImage(t *testing.T) {
	require.Long(t, "builds an operator")
	t.Parallel()
	kelson, dir := built(t, binary), t.TempDir()
	project := smallProject(t)
	image := func(args ...string) outcome {
		return command(t, []string{"GOWORK=off"}, kelson, append([]string{"image", project, "--generate=false"}, args...)...)
	}
	var digests [2]string
	for i := range digests {
		got := image("registry.example/shop/operator:v1", "--archive", filepath.Join(dir, "operator.tar"), "--sbom",
			filepath.Join(dir, "new", "bills"))
		require.Equalf(t, got.code, 0, "%v", got.stderr)
		if digests[i] = got.stdout; !regexp.MustCompile(`^registry\.example/shop/operator:v1 sha256:[0-9a-f]{64}\n$`).
			MatchString(got.stdout) {
			t.Errorf("it prints %q", got.stdout)
		}
	}
	got := image("registry.example/shop/operator:v1", "--archive", filepath.Join(dir, "operator.tar"), "-o", "json")
	var printed struct {
		Name, Digest string
		Platforms    []string
	}
	if err := json.Unmarshal([]byte(got.stdout), &printed); err != nil ||
		printed.Name+" "+printed.Digest+"\n" != digests[0] || len(printed.Platforms) != 1 {
		t.Errorf("-o json prints %q: %v", got.stdout, err)
	}
	assert.Equalf(t, digests[0], digests[1], "two builds differ: %q", digests)
	bills, err := filepath.Glob(filepath.Join(dir, "new", "bills", "linux-*.spdx.json"))
	if err != nil || len(bills) != 1 {
		t.Fatalf("bills: %v %v", bills, err)
	}
	bill, err := os.ReadFile(bills[0])
	if err != nil || !strings.Contains(string(bill), `"pkg:golang/github.com/spf13/pflag@v`) {
		t.Errorf("the bill lacks pflag: %v", err)
	}

	for _, bad := range []struct {
		args []string
		want string
	}{
		{[]string{"shop/operator"}, "no destination: pass --push, --load or --archive FILE"},
		{[]string{"Shop", "--push"}, "invalid name of an image"},
		{[]string{"shop/operator", "--push", "--platform", "windows/amd64"},
			`platform "windows/amd64": images are built for linux only`},
		{[]string{"shop/operator", "--load", "--containerd", filepath.Join(dir, "no.sock")}, "import"},
		{[]string{"shop/operator", "--load", "--file", "config"}, `--file: invalid file "config": want SOURCE:PATH`},
		{[]string{"shop/operator", "--load", "--file", "missing:/missing"}, "/missing to /missing"},
		{[]string{"127.0.0.1:1/shop/operator", "--push"}, "push 127.0.0.1:1/shop/operator"},
	} {
		if got := image(bad.args...); got.code != 1 || !strings.Contains(got.stderr, bad.want) {
			t.Errorf("%v: code %d, want %q\n%s", bad.args, got.code, bad.want, got.stderr)
		}
	}
	if got := command(t, nil, kelson, "deploy", project, "--push"); got.code != 1 ||
		!strings.Contains(got.stderr, "--push needs --image") {
		t.Errorf("deploy --push: %+v", got)
	}
	if got := command(t, nil, kelson, "deploy", project, "--file", "config:/config"); got.code != 1 ||
		!strings.Contains(got.stderr, "--file and --platform need --push or --load") {
		t.Errorf("deploy --file: %+v", got)
	}
	got = image("shop/operator", "--archive", filepath.Join(dir, "files.tar"), "--file", "config/samples:/samples")
	if got.code != 0 || got.stdout == digests[0] {
		t.Errorf("with files: %+v", got)
	}
}
