package main

import (
	"os"
	"slices"
	"testing"

	"github.com/spf13/pflag"

	"kelson.dev/cmd/kelson/internal/dropin"
	"kelson.dev/cmd/kelson/internal/dropin/etcd"
	"kelson.dev/cmd/kelson/internal/flags"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// The replacement for kube-apiserver accepts every flag of kube-apiserver.
func TestFlagsOfKubeAPIServer(t *testing.T) {
	c := dropin.APIServerCommand()
	c.InitDefaultHelpFlag()
	for _, u := range flags.KubeAPIServer() {
		if f := c.Flags().Lookup(u.Name); f == nil || f.Shorthand != u.Shorthand {
			t.Errorf("--%s: %v", u.Name, f)
		}
	}
}

func TestFlagReference(t *testing.T) {
	const page = "../../docs/reference/flags.md"
	c := dropin.APIServerCommand()
	c.InitDefaultHelpFlag()
	c.InitDefaultVersionFlag()
	text := flags.Reference(func(name string) bool { return c.Flags().Lookup(name) != nil })
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(text), 0o644))
	}
	if have, err := os.ReadFile(page); err != nil || string(have) != text {
		t.Errorf("%s is out of date: run go generate ./cmd/kelson/internal/flags (%v)", page, err)
	}
}

// The replacement for etcd accepts every flag of etcd, and names those without an effect.
func TestFlagsOfEtcd(t *testing.T) {
	f := pflag.NewFlagSet("etcd", pflag.ContinueOnError)
	clients := etcd.Flags(f)
	args := []string{"--quota-backend-bytes=1", "--auto-compaction-mode", "periodic",
		"--listen-client-urls=http://127.0.0.1:1", "--pre-vote"}
	if err := f.Parse(args); err != nil || !slices.Equal(*clients, []string{"http://127.0.0.1:1"}) || f.NArg() > 0 {
		t.Errorf("%v; clients %q, further arguments %q", err, *clients, f.Args())
	}
	want := []string{"--quota-backend-bytes has no effect", "--auto-compaction-mode has no effect",
		"--pre-vote has no effect"}
	assert.Slicef(t, etcd.Ignored(f, args), want, "notes")
}
