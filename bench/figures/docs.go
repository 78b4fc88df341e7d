package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"kelson.dev/kubernetes/controlplane"
	"kelson.dev/test/section"
)

// markdown returns the part of the page.
func (r *results) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, in %s: %s. Kubernetes %s, etcd %s, controller-runtime %s, %s.\n\n",
		time.Now().UTC().Format("2 January 2006"),
		r.took.Round(time.Second), machine(), controlplane.KubernetesVersion,
		moduleVersion("go.etcd.io/etcd/server/v3"),
		moduleVersion("sigs.k8s.io/controller-runtime"), runtime.Version())
	heads := r.table.headings()
	fmt.Fprintln(&b, "| "+strings.Join(heads, " | ")+" |")
	fmt.Fprintln(&b, "|---"+strings.Repeat("|--:", len(heads)-1)+"|")
	for _, row := range r.table.rows {
		if !r.empty(row) {
			fmt.Fprintln(&b, "| "+strings.Join(r.cells(row), " | ")+" |")
		}
	}
	for _, line := range r.failures() {
		fmt.Fprintf(&b, "\n%s\n", line)
	}
	b.WriteString("\nThe servers' processor time per operation (all their processes; an event is one to one watcher), and the p99 that clients saw:\n\n")
	fmt.Fprintln(&b, "| what | "+strings.Join(r.table.heads[:], " | ")+" |")
	fmt.Fprintln(&b, "|---|--:|--:|--:|--:|")
	for _, row := range r.table.rows {
		cells, any := []string{row.what}, false
		for i := range r.table.sides {
			f := r.figures[i][row.id]
			cell := ""
			if f.cpu > 0 {
				any = true
				cell = f.cpu.Round(100 * time.Nanosecond).String()
			}
			if f.cpu > 0 && f.p99 > 0 {
				cell += ", p99 " + f.p99.Round(10*time.Microsecond).String()
			}
			cells = append(cells, cell)
		}
		if any {
			fmt.Fprintln(&b, "| "+strings.Join(cells, " | ")+" |")
		}
	}
	return b.String()
}

// machine describes the machine and the software versions of the run.
func machine() string {
	model := "unknown processor"
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(info)) {
			if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	memory := ""
	if info, err := os.ReadFile("/proc/meminfo"); err == nil {
		var kb int64
		if _, err := fmt.Sscanf(string(info), "MemTotal: %d kB", &kb); err == nil {
			memory = fmt.Sprintf(", %d GiB", (kb+1<<19)>>20)
		}
	}
	kernel := ""
	if out, err := exec.Command("uname", "-sr").Output(); err == nil {
		kernel = ", " + strings.TrimSpace(string(out))
	}
	return fmt.Sprintf("%d processors (%s)%s, %s/%s%s", runtime.NumCPU(), model, memory, runtime.GOOS, runtime.GOARCH,
		kernel)
}

func moduleVersion(path string) string {
	info, _ := debug.ReadBuildInfo()
	if info != nil {
		for _, m := range info.Deps {
			if m.Path == path {
				return m.Version
			}
		}
	}
	return "of go.mod"
}

// writeDocs replaces the part of the page.
func (r *results) writeDocs(o *options) error {
	return section.Replace(o.docs, r.table.begin(), r.table.end(), "\n"+r.markdown()+"\n")
}
