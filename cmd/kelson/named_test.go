package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"kelson.dev/internal/require"
)

// kelson serve --detach returns when the server is ready, kelson list shows it, and kelson stop
// ends it. Its state stays for the next start with its name.
func TestNamedServers(t *testing.T) {
	data := t.TempDir()
	kelson := func(code int, args ...string) outcome {
		t.Helper()
		got := command(t, []string{"XDG_DATA_HOME=" + data}, built(t, binary), args...)
		if got.code != code {
			t.Fatalf("kelson %v: exit code %d\n%s%s", args, got.code, got.stdout, got.stderr)
		}
		return got
	}
	kubeconfig := filepath.Join(data, "kelson-servers", "shop", "kubeconfig")
	t.Cleanup(func() { // if the test failed
		stop := exec.Command(built(t, binary), "stop", "shop")
		stop.Env = append(os.Environ(), "XDG_DATA_HOME="+data)
		_ = stop.Run()
	})

	wantContains(t, "list", kelson(0, "list").stdout, "no servers")
	wantContains(t, "serve", kelson(0, "serve", "--name", "shop", "--detach", "--console").stdout,
		"ready in", "export KUBECONFIG="+kubeconfig, "console: http://", `server "shop" runs in the background`)
	wantContains(t, "list", kelson(0, "list").stdout, "shop   running   https://127.0.0.1:", kubeconfig)
	wantContains(t, "list", kelson(0, "list", "-o", "json").stdout, `"running": true`, `"console": "http://`)
	wantContains(t, "the second start", kelson(1, "serve", "--name=shop", "--detach").stderr,
		`server "shop" runs already, at https://`)
	kelson(0, "kubectl", "--kubeconfig", kubeconfig, "create", "namespace", "stays")
	wantContains(t, "stop", kelson(0, "stop", "shop").stdout, `server "shop" has stopped`)
	wantContains(t, "list", kelson(0, "list").stdout, "shop   stopped")
	wantContains(t, "the second stop", kelson(1, "stop", "shop").stderr, `server "shop": not running`)

	kelson(0, "serve", "--detach", "--name", "shop")
	kelson(0, "kubectl", "--kubeconfig", kubeconfig, "get", "namespace", "stays")
	kelson(0, "stop", "shop")

	wantContains(t, "a wrong name", kelson(1, "serve", "--name", "../x").stderr,
		"--name: server \"../x\": the name may have")
	wantContains(t, "a server that fails", kelson(1, "serve", "--name=bad", "--detach", "--node=docker").stderr,
		`server "bad": exit status 1`, "must be none, simulated, process or containers")
}

// A folder without a project has one message in all commands.
func TestNoProject(t *testing.T) {
	kelson, err := filepath.Abs(built(t, binary))
	require.NoError(t, err)
	empty := t.TempDir()
	t.Chdir(empty)
	want := ""
	for _, line := range []string{
		"generate", "manifests", "build", "test", "run", "dev", "install", "uninstall", "deploy", "undeploy",
		"package installer", "explore", "plan",
		"rights --test", "upgrade", "edit --multigroup", "create api --group a --version v1 --kind B",
		"delete api --group a --version v1 --kind B",
	} {
		got := command(t, []string{"KUBECONFIG=" + filepath.Join(empty, "absent")}, kelson, strings.Fields(line)...)
		if want == "" {
			want = got.stderr
			wantContains(t, "the message", want,
				"no project in this folder: run the command in the folder of a project, name that folder")
		}
		if got.code != 1 || got.stderr != want {
			t.Errorf("kelson %s: exit code %d\n%s", line, got.code, got.stderr)
		}
	}
}
