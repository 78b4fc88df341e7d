// Package dropin implements the commands that replace the binaries of envtest: kube-apiserver and
// etcd, and kelson envtest, which links them.
package dropin

import (
	"bytes"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"kelson.dev/cmd/kelson/internal/output"
)

// Names lists the programs that test suites look for in the folder of envtest. This binary behaves
// like each of them if it is called by that name.
var Names = []string{"kube-apiserver", "etcd", "kubectl"}

// EnvtestCommand returns kelson envtest.
func EnvtestCommand() *cobra.Command {
	var printPath bool
	var format output.Format
	c := &cobra.Command{
		Use:   "envtest [DIR]",
		Short: "Create a folder with kube-apiserver, etcd and kubectl for envtest",
		Long: `Create a folder with kube-apiserver, etcd and kubectl for envtest.

Existing test suites run unchanged with KUBEBUILDER_ASSETS=DIR. kubectl is
this binary: a hard link to it, or a copy of it if DIR is on another file
system. etcd and kube-apiserver are small programs; kube-apiserver runs this
binary. You can move the folder or kelson. Run the command again after an update
of kelson. The default of DIR is a folder in the user's cache.

kube-apiserver keeps its state in memory; etcd only answers health checks. Both
end when the process that started them ends.`,
		Example: `  kelson envtest bin/envtest
  KUBEBUILDER_ASSETS=$(kelson envtest --print-path) go test ./...`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if runtime.GOOS == "windows" {
				return errors.New("write the programs of envtest: not supported on Windows, where envtest cannot stop its servers: run kelson serve, and set KUBECONFIG and USE_EXISTING_CLUSTER=true for the tests")
			}
			dir, err := assets(args)
			if err != nil {
				return err
			}
			if err := install(dir); err != nil {
				return err
			}
			switch {
			case format != output.Text:
				return format.Print(c.OutOrStdout(), map[string]any{"path": dir})
			case printPath:
				fmt.Fprintln(c.OutOrStdout(), dir)
			default:
				fmt.Fprintf(c.OutOrStdout(), "export KUBEBUILDER_ASSETS=%s\n", shellWord(dir))
			}
			return nil
		},
	}
	c.Flags().BoolVar(&printPath, "print-path", false, "print only the path of the folder")
	format.AddFlag(c)
	c.MarkFlagsMutuallyExclusive("print-path", "output")
	return c
}

// assets returns the absolute path of the folder.
func assets(args []string) (string, error) {
	if len(args) > 0 {
		return filepath.Abs(args[0])
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the default folder: %w", err)
	}
	return filepath.Join(cache, "kelson", "envtest"), nil
}

// install creates the folder with its three programs.
func install(dir string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this binary: %w", err)
	}
	if self, err = filepath.EvalSymlinks(self); err != nil {
		return fmt.Errorf("find this binary: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("create %s: %w", dir, err)
	}
	return InstallFrom(programs, self, dir)
}

// InstallFrom creates the three programs. kubectl is a link to self. If programs has the small
// program, etcd is the small program, and so is kube-apiserver on systems where a process can
// replace itself by another program. Otherwise they are links to self, too. Several processes can
// create the same folder at the same time, and current files stay as they are.
func InstallFrom(programs fs.FS, self, dir string) error {
	self, err := link(self, filepath.Join(dir, "kubectl"))
	if err != nil {
		return err
	}
	etcd, apiserver := filepath.Join(dir, "etcd"), filepath.Join(dir, "kube-apiserver")
	small, err := readProgram(programs)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err = link(self, etcd); err != nil {
			return err
		}
		_, err = link(self, apiserver)
		return err
	}
	if err != nil {
		return err
	}
	if err := write(etcd, small, 0o755, true); err != nil {
		return err
	}
	if runtime.GOOS == "windows" {
		_, err = link(self, apiserver)
		return err
	}
	if err := write(apiserver+".help", apiserverHelp(), 0o644, false); err != nil {
		return err
	}
	_, err = link(etcd, apiserver)
	return err
}

// apiserverHelp returns the help of kube-apiserver.
func apiserverHelp() []byte {
	var help bytes.Buffer
	c := APIServerCommand()
	c.SetOut(&help)
	_ = c.Help()
	return help.Bytes()
}

// link makes name a hard link to the program, or a copy of it if the file system cannot link it. It
// returns the file to link next.
func link(program, name string) (string, error) {
	have, err := lookup(name)
	if err != nil {
		return "", err
	}
	if have != nil && have.Mode().IsRegular() {
		if current, err := os.Stat(program); err == nil && os.SameFile(current, have) {
			return program, nil
		}
		if have.Mode().Perm()&0o100 != 0 && equal(program, name) {
			return name, nil
		}
	}
	next := program
	err = replace(name, have, true, func(temp string) error {
		if os.Link(program, temp) == nil {
			return nil
		}
		next = name
		return copyFile(program, temp)
	})
	return next, err
}

// write creates a file with a content, unless it has that content.
func write(name string, content []byte, mode fs.FileMode, program bool) error {
	have, err := lookup(name)
	if err != nil {
		return err
	}
	if have != nil && have.Mode() == mode {
		if current, err := os.ReadFile(name); err == nil && bytes.Equal(current, content) {
			return nil
		}
	}
	return replace(name, have, program, func(temp string) error { return os.WriteFile(temp, content, mode) })
}

// lookup returns what a file is, or nil if it does not exist.
func lookup(name string) (fs.FileInfo, error) {
	have, err := os.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("create %s: %w", name, err)
	}
	return have, nil
}

// replace renames the file that create creates to name. If it is a program, it replaces symbolic
// links and programs of an earlier call, but no other files. have is the result of lookup; another
// process may have created the same file since then. A running server keeps its file.
func replace(name string, have fs.FileInfo, program bool, create func(temp string) error) error {
	if have != nil && program && have.Mode()&os.ModeSymlink == 0 && !isKelson(name) {
		return fmt.Errorf("create %s: the file exists and is not kelson: remove it or use another folder", name)
	}
	folder, err := os.MkdirTemp(filepath.Dir(name), ".new-") // other processes have their own
	if err != nil {
		return fmt.Errorf("create %s: %w", name, err)
	}
	defer os.RemoveAll(folder)
	temp := filepath.Join(folder, filepath.Base(name))
	if err := create(temp); err != nil {
		return fmt.Errorf("create %s: %w", name, err)
	}
	if err := os.Rename(temp, name); err != nil {
		return fmt.Errorf("create %s: %w", name, err)
	}
	return nil
}

// equal reports whether two files have the same content.
func equal(one, other string) bool {
	a, err := os.Open(one)
	if err != nil {
		return false
	}
	defer a.Close()
	b, err := os.Open(other)
	if err != nil {
		return false
	}
	defer b.Close()
	left, right := make([]byte, 1<<20), make([]byte, 1<<20)
	for {
		n, err := io.ReadFull(a, left)
		m, otherErr := io.ReadFull(b, right)
		if !bytes.Equal(left[:n], right[:m]) || err != otherErr {
			return false
		}
		if err != nil {
			return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		}
	}
}

// isKelson reports whether a file is a program of kelson.
func isKelson(name string) bool {
	info, err := buildinfo.ReadFile(name)
	return err == nil && (info.Path == "kelson.dev/cmd/kelson" ||
		info.Path == "kelson.dev/cmd/kelson/internal/dropin/program")
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// shellWord quotes a text for a shell if necessary.
func shellWord(text string) string {
	if plain.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

var plain = regexp.MustCompile(`^[\w/.,:@%+=-]+$`)
