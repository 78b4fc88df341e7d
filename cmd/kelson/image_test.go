package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// kelson image writes an archive and bills of materials, the same ones each time.
func TestImage(t *testing.T) {
	if testing.Short() {
		t.Skip("builds an operator")
	}
	t.Parallel()
	kelson, dir := built(t, binary), t.TempDir()
	const project = "../../examples/cnat"
	image := func(args ...string) outcome {
		return command(t, nil, kelson, append([]string{"image", project, "--generate=false"}, args...)...)
	}
	var digests [2]string
	for i := range digests {
		got := image("registry.example/shop/operator:v1", "--archive", filepath.Join(dir, "operator.tar"), "--sbom",
			filepath.Join(dir, "new", "bills"))
		if got.code != 0 {
			t.Fatal(got.stderr)
		}
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
	if digests[0] != digests[1] {
		t.Errorf("two builds differ: %q", digests)
	}
	bills, err := filepath.Glob(filepath.Join(dir, "new", "bills", "linux-*.spdx.json"))
	if err != nil || len(bills) != 1 {
		t.Fatalf("bills: %v %v", bills, err)
	}
	bill, err := os.ReadFile(bills[0])
	if err != nil || !strings.Contains(string(bill), `"pkg:golang/k8s.io/api@v`) {
		t.Errorf("the bill lacks k8s.io/api: %v", err)
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
		{[]string{"shop/operator", "--load", "--file", "missing:/missing"}, "examples/cnat/missing to /missing"},
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
