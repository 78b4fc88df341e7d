package config_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kelson.dev/examples/projectconfig/internal/config"
	"kelson.dev/operator"
)

// configure returns the configuration from a file and command-line arguments.
func configure(t *testing.T, args ...string) (*config.File, operator.Config, error) {
	t.Helper()
	file, cfg := &config.File{}, operator.Config{MetricsAddress: "flag", GracePeriod: time.Second}
	set := flag.NewFlagSet("manager", flag.ContinueOnError)
	file.Register(set)
	set.String("metrics-bind-address", "", "")
	set.Duration("graceful-shutdown-timeout", 0, "")
	set.Bool("leader-elect", false, "")
	if err := set.Parse(args); err != nil {
		t.Fatal(err)
	}
	err := file.Configure(&cfg)
	return file, cfg, err
}

// The file configures the operator, and flags override the file.
func TestTheFileConfiguresTheOperator(t *testing.T) {
	const path = "../../config/manager/project_config.yaml"
	file, cfg, err := configure(t, "--config", path)
	if err != nil || file.Spec.ClusterName != "harbour" {
		t.Fatal(file.Spec, err)
	}
	if cfg.MetricsAddress != ":8443" || cfg.HealthAddress != ":8081" || cfg.GracePeriod != 10*time.Second ||
		cfg.Election == nil || cfg.Election.Lease.Name != "projectconfig.demo.welcome.domain" {
		t.Errorf("got %+v, %+v", cfg, cfg.Election)
	}
	_, cfg, err = configure(t, "--config="+path, "--metrics-bind-address=flag", "--graceful-shutdown-timeout=1s",
		"--leader-elect=false")
	if err != nil || cfg.MetricsAddress != "flag" || cfg.GracePeriod != time.Second || cfg.Election != nil {
		t.Errorf("flags do not override the file: %+v, %v", cfg, err)
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

// Fields that the file omits have their defaults.
func TestDefaults(t *testing.T) {
	_, cfg, err := configure(t, "--config="+write(t, head+`spec: {clusterName: c, health: {bindAddress: "0"}}`))
	if err != nil || cfg.GracePeriod != 30*time.Second || cfg.MetricsAddress != "" || cfg.HealthAddress != "" ||
		cfg.Election != nil {
		t.Errorf("%+v, %v", cfg, err)
	}
}

// Each mistake in a file is an error that names it. A missing file is an error too.
func TestWrongFiles(t *testing.T) {
	for content, want := range map[string]string{
		"": "it holds a",
		head + "spec: {clusterName: c, metric: {}}":                    `unknown field "metric"`,
		head + "spec: {clusterName: c, clusterName: d}":                `key "clusterName" already set`,
		head + "spec: {clusterName: My Cluster}":                       "spec.clusterName",
		head + "spec: {}":                                              "spec.clusterName",
		head + "spec: {clusterName: c, gracefulShutdownTimeout: soon}": "invalid duration",
		head + "spec: {clusterName: c, gracefulShutdownTimeout: -1s}":  "must not be negative",
		strings.Replace(head, "v2", "v1", 1) +
			"spec: {clusterName: c}": "v1, Kind=ProjectConfig, not a",
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
	if _, _, err := configure(t); !os.IsNotExist(err) {
		t.Errorf("no file: %v", err)
	}
}
