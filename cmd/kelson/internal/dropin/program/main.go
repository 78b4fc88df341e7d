// Command program is the small program that kelson envtest writes as etcd and kube-apiserver. make
// build embeds it in kelson.
//
// As etcd it answers health checks, with a fraction of the memory that a process of the whole
// kelson binary needs. As kube-apiserver it replaces itself by kelson, except when envtest requests
// the help, which it does before each start: then it prints the help from a file, which is faster
// than initializing kelson's packages.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/pflag"

	"kelson.dev/cmd/kelson/internal/dropin/etcd"
	"kelson.dev/cmd/kelson/internal/dropin/startup"
)

func main() {
	name, run := filepath.Base(os.Args[0]), runEtcd
	if name == "kube-apiserver" {
		run = runAPIServer
	}
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

func runEtcd(args []string) error {
	flags := pflag.NewFlagSet("etcd", pflag.ContinueOnError)
	flags.Usage = func() {
		fmt.Fprintf(os.Stdout, "Replacement for the etcd that envtest starts.\n\n%s", flags.FlagUsages())
	}
	clients := etcd.Flags(flags)
	version := flags.Bool("version", false, "print the version")
	switch err := flags.Parse(args); {
	case errors.Is(err, pflag.ErrHelp):
		return nil
	case err != nil:
		return err
	case flags.NArg() > 0:
		return fmt.Errorf("unknown argument %q", flags.Arg(0))
	}
	if *version {
		fmt.Println("etcd Version: kelson")
		return nil
	}
	for _, note := range etcd.Ignored(flags, args) {
		fmt.Fprintln(os.Stderr, "etcd:", note)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return etcd.Serve(startup.UntilParentEnds(ctx), *clients, os.Stderr, func() {})
}

// runAPIServer replaces this process by the kelson in the same folder, which has the name kubectl.
func runAPIServer(args []string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if len(args) == 1 && args[0] == "--help" {
		if help, err := os.ReadFile(self + ".help"); err == nil {
			_, err = os.Stdout.Write(help)
			return err
		}
	}
	kelson := filepath.Join(filepath.Dir(self), "kubectl")
	err = syscall.Exec(kelson, os.Args, startup.Environ(os.Environ()))
	return fmt.Errorf("run %s: %w; run kelson envtest again", kelson, err)
}
