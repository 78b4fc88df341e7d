package config_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kelson.dev/examples/projectconfig/internal/config"
)

// EX-05
func TestTheFileStandsForFlags(t *testing.T) {
	cfg, args, err := config.FromArgs([]string{"manager", "--config", "../../config/manager/project_config.yaml", "-v=1", "--leader-elect=false"})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"manager", "--metrics-bind-address=:8443", "--health-probe-bind-address=:8081", "--graceful-shutdown-timeout=10s",
		"--leader-elect=true", "--leader-election-id=projectconfig.demo.welcome.domain", "-v=1", "--leader-elect=false"}
	if cfg.Spec.ClusterName != "harbour" || !slices.Equal(args, want) {
		t.Errorf("%+v, %q", cfg.Spec, args)
	}
}

func write(t *testing.T, content string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

const head = "apiVersion: config.demo.welcome.domain/v2\nkind: ProjectConfig\n"

// EX-05
func TestDefaults(t *testing.T) {
	cfg, args, err := config.FromArgs([]string{"manager", "--config=" + write(t, head+"spec: {clusterName: c}")})
	if err != nil || cfg.Spec.GracefulShutdownTimeout.Duration != 30*time.Second || !slices.Equal(args[1:], []string{"--graceful-shutdown-timeout=30s"}) {
		t.Errorf("%+v, %q, %v", cfg, args, err)
	}
}

// EX-05
func TestWrongFiles(t *testing.T) {
	for content, want := range map[string]string{
		"": "it holds a",
		head + "spec: {clusterName: c, metric: {}}":                                      `unknown field "metric"`,
		head + "spec: {clusterName: c, clusterName: d}":                                  `key "clusterName" already set`,
		head + "spec: {clusterName: My Cluster}":                                         "spec.clusterName",
		head + "spec: {}":                                                                "spec.clusterName",
		head + "spec: {clusterName: c, gracefulShutdownTimeout: soon}":                   "invalid duration",
		head + "spec: {clusterName: c, gracefulShutdownTimeout: -1s}":                    "must not be negative",
		strings.Replace(head, "v2", "v1", 1) + "spec: {clusterName: c}":                  "v1, Kind=ProjectConfig, not a",
		"apiVersion: config.demo.welcome.domain/v2\nkind: Other\nspec: {clusterName: c}": "Kind=Other, not a",
	} {
		if _, err := config.Read(write(t, content)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", content, err, want)
		}
	}
	if _, err := config.Read("nowhere.yaml"); !os.IsNotExist(err) {
		t.Error(err)
	}
	t.Chdir(t.TempDir())
	if _, _, err := config.FromArgs([]string{"manager"}); !os.IsNotExist(err) {
		t.Errorf("no file: %v", err)
	}
}
