//go:build linux

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	imageutils "k8s.io/kubernetes/test/utils/image"
)

var pauseImage = imageutils.GetE2EImage(imageutils.Pause)

// dnsImage is the image of the DNS server.
const dnsImage = "kelson.local/coredns:conformance"

// file is a file, or a link if to is set, of an image.
type file struct {
	from string // on this machine
	mode fs.FileMode
	text string
	to   string
}

// files are the files of an image by their absolute path.
type files map[string]file

func (f files) with(others ...files) files {
	all := files{}
	for _, o := range append([]files{f}, others...) {
		for at, what := range o {
			all[at] = what
		}
	}
	return all
}

// buildImages writes an archive of the images that the specs deploy, which share layers.
func (o options) buildImages(ctx context.Context) error {
	b := &imageBuilder{programs: filepath.Join(o.work, "programs"), layers: map[string]v1.Layer{},
		images: map[name.Tag]v1.Image{}}
	if err := b.build(ctx); err != nil {
		return err
	}
	busybox, err := b.busybox()
	if err != nil {
		return err
	}
	tools, err := b.debian("bash", "curl", "dig", "host", "nslookup", "getent", "nc.openbsd", "ss", "ip", "iperf",
		"socat")
	if err != nil {
		return err
	}
	// The shell of Debian's busybox prefers its own applets to the programs in PATH, and drops
	// variables such as data-1.
	common := busybox.with(tools, files{"/bin/sh": {to: "../usr/bin/bash"}})
	nginx, err := b.nginx(ctx)
	if err != nil {
		return err
	}
	kubernetes, err := output(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes")
	if err != nil {
		return err
	}
	sources := filepath.Join(kubernetes, "test/images")
	program := func(name string) file { return file{from: filepath.Join(b.programs, name), mode: 0o755} }
	base := layer{"base", common}
	agnhost := []layer{base, {"agnhost", files{
		"/agnhost": program("agnhost"), "/agnhost-2": {to: "agnhost"}, "/uploads/": {mode: 0o755},
		"/localhost.crt": {from: filepath.Join(sources, "agnhost/porter/localhost.crt"), mode: 0o644},
		"/localhost.key": {from: filepath.Join(sources, "agnhost/porter/localhost.key"), mode: 0o644},
		"/etc/passwd":    {text: passwd + "user-defined-in-image:x:1000:1000::/home:/bin/sh\n", mode: 0o644},
		"/etc/group":     {text: groups + "user-defined-in-image:x:1000:\ngroup-defined-in-image:x:50000:user-defined-in-image\n", mode: 0o644},
	}}}
	page := func(name string) []layer {
		return append(slices.Clone(agnhost), layer{name, files{
			"/" + name + ".jpg": {from: filepath.Join(sources, name, "html", name+".jpg"), mode: 0o644},
			"/data.json":        {from: filepath.Join(sources, name, "html/data.json"), mode: 0o644},
		}})
	}
	on := func(name string, f files) []layer { return []layer{base, {name, f}} }
	asAgnhost := v1.Config{Entrypoint: []string{"/agnhost"}, Cmd: []string{"pause"}}
	asPage := v1.Config{Entrypoint: []string{"/agnhost"}, Cmd: []string{"test-webserver"}}
	asNginx := v1.Config{Entrypoint: []string{"/usr/sbin/nginx"}, Cmd: []string{"-g", "daemon off;"},
		StopSignal: "SIGQUIT"}
	for _, i := range []struct {
		name   string
		layers []layer
		config v1.Config
	}{
		{pauseImage, []layer{{"pause", files{"/pause": program("pause")}}},
			v1.Config{Entrypoint: []string{"/pause"}, User: "65535:65535"}},
		{imageutils.GetE2EImage(imageutils.BusyBox), []layer{base}, v1.Config{Cmd: []string{"sh"}}},
		{imageutils.GetE2EImage(imageutils.Agnhost), agnhost, asAgnhost},
		{imageutils.GetE2EImage(imageutils.AgnhostPrev), agnhost, asAgnhost},
		{imageutils.GetE2EImage(imageutils.Kitten), page("kitten"), asPage},
		{imageutils.GetE2EImage(imageutils.Nautilus), page("nautilus"), asPage},
		{imageutils.GetE2EImage(imageutils.Nginx), on("nginx", nginx), asNginx},
		{imageutils.GetE2EImage(imageutils.NginxNew), on("nginx", nginx), asNginx},
		{imageutils.GetE2EImage(imageutils.GlibcDnsTesting), []layer{base}, v1.Config{Cmd: []string{"bash"}}},
		{imageutils.GetE2EImage(imageutils.NonRoot), []layer{base}, v1.Config{Cmd: []string{"sh"}, User: "1234"}},
		{imageutils.GetE2EImage(imageutils.Nonewprivs),
			on("nnp", files{"/usr/local/bin/nnp": {from: filepath.Join(b.programs, "nonewprivs"),
				mode: 0o755 | fs.ModeSetuid}}),
			v1.Config{Cmd: []string{"nnp"}}},
		{imageutils.GetE2EImage(imageutils.APIServer),
			on("api", files{"/sample-apiserver": program("sample-apiserver")}),
			v1.Config{Entrypoint: []string{"/sample-apiserver"}}},
		{imageutils.GetE2EImage(imageutils.Etcd),
			on("etcd", files{"/usr/local/bin/etcd": {from: filepath.Join(o.bin, "peers/etcd"), mode: 0o755}}),
			v1.Config{Cmd: []string{"etcd"}}},
		{dnsImage, on("dns", files{"/coredns": {from: o.dns, mode: 0o755}}),
			v1.Config{Entrypoint: []string{"/coredns"}}},
	} {
		if err := b.add(i.name, i.layers, i.config); err != nil {
			return fmt.Errorf("%s: %w", i.name, err)
		}
	}
	archive := o.archive()
	if err := os.MkdirAll(filepath.Dir(archive), 0o755); err != nil {
		return err
	}
	if err := tarball.MultiWriteToFile(archive+".part", b.images); err != nil {
		return err
	}
	log.Printf("wrote %d images to %s", len(b.images), archive)
	return os.Rename(archive+".part", archive)
}

// layer is a layer of images by a name.
type layer struct {
	name  string
	files files
}

// imageBuilder builds images.
type imageBuilder struct {
	programs string // folder of the programs that are built from Kubernetes' sources
	layers   map[string]v1.Layer
	images   map[name.Tag]v1.Image
}

// build compiles Kubernetes' programs.
func (b *imageBuilder) build(ctx context.Context) error {
	if err := os.MkdirAll(b.programs, 0o755); err != nil {
		return err
	}
	err := build(ctx, "build", "-ldflags=-s -w", "-o", b.programs+"/",
		"k8s.io/kubernetes/test/images/agnhost", "k8s.io/kubernetes/test/images/nonewprivs", "k8s.io/sample-apiserver")
	if err != nil {
		return err
	}
	kubernetes, err := output(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/kubernetes")
	if err != nil {
		return err
	}
	_, err = output(ctx, "cc", "-static", "-Os", "-DVERSION=conformance", "-o", filepath.Join(b.programs, "pause"),
		filepath.Join(kubernetes, "build/pause/linux/pause.c"))
	return err
}

const (
	passwd = "root:x:0:0:root:/root:/bin/sh\n" + "nobody" + ":x:65534:65534::/:/bin/false\n"
	groups = "root:x:0:\nnogroup:x:65534:\n"
)

// busybox returns the files of busybox and the usual directories.
func (b *imageBuilder) busybox() (files, error) {
	program, err := exec.LookPath("busybox")
	if err != nil {
		return nil, fmt.Errorf("install busybox-static: %w", err)
	}
	applets, err := output(context.Background(), program, "--list")
	if err != nil {
		return nil, err
	}
	all := files{
		"/bin/busybox": {from: program, mode: 0o755}, "/tmp/": {mode: 0o777 | fs.ModeSticky},
		"/var/tmp/": {mode: 0o777 | fs.ModeSticky},
		"/root/":    {mode: 0o700}, "/home/": {mode: 0o755}, "/var/run": {to: "../run"}, "/run/": {mode: 0o755},
		"/etc/passwd": {text: passwd, mode: 0o644}, "/etc/group": {text: groups, mode: 0o644},
		"/etc/nsswitch.conf": {text: "passwd: files\ngroup: files\nhosts: files dns\n", mode: 0o644},
	}
	for _, a := range strings.Fields(applets) {
		if a != "busybox" {
			all["/bin/"+a] = file{to: "busybox"}
		}
	}
	return all, nil
}

// debian returns programs of this machine with their libraries. They replace busybox's applets.
func (b *imageBuilder) debian(programs ...string) (files, error) {
	all := files{}
	for _, p := range programs {
		at, err := exec.LookPath(p)
		if err != nil {
			return nil, fmt.Errorf("install the program: %w", err)
		}
		name := strings.TrimSuffix(path.Base(at), ".openbsd")
		all["/usr/bin/"+name] = file{from: at, mode: 0o755}
		all["/bin/"+name] = file{to: "../usr/bin/" + name}
		if err := all.addLibraries(at); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// addLibraries adds the shared libraries of a program.
func (f files) addLibraries(program string) error {
	out, err := output(context.Background(), "ldd", program)
	if err != nil {
		return err
	}
	for line := range strings.Lines(out) {
		for _, word := range strings.Fields(line) {
			if strings.HasPrefix(word, "/") {
				f[word] = file{from: word, mode: 0o755}
			}
		}
	}
	return nil
}

// nginxConfig serves one page, which specs move away to make probes fail.
const nginxConfig = `user root;
worker_processes 1;
pid /run/nginx.pid;
error_log /dev/stderr;
events { worker_connections 256; }
http {
	access_log /dev/stdout;
	server {
		listen 80;
		root /usr/share/nginx/html;
		index index.html;
	}
}
`

// nginx returns the files of Debian's nginx, which need not be installed.
func (b *imageBuilder) nginx(ctx context.Context) (files, error) {
	dir, err := os.MkdirTemp("", "nginx-")
	if err != nil {
		return nil, err
	}
	c := exec.CommandContext(ctx, "sh", "-c", "apt-get download -q nginx && dpkg-deb -x nginx_*.deb root")
	c.Dir = dir
	if out, err := c.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("download nginx: %w: %s", err, out)
	}
	program := filepath.Join(dir, "root/usr/sbin/nginx")
	all := files{
		"/usr/sbin/nginx":                  {from: program, mode: 0o755},
		"/etc/nginx/nginx.conf":            {text: nginxConfig, mode: 0o644},
		"/usr/share/nginx/html/index.html": {text: "<h1>Welcome to nginx!</h1>\n", mode: 0o644},
		"/var/log/nginx/":                  {mode: 0o755}, "/var/lib/nginx/": {mode: 0o755},
	}
	return all, all.addLibraries(program)
}

// add builds an image. It builds each layer once, by name.
func (b *imageBuilder) add(reference string, layers []layer, config v1.Config) error {
	tag, err := name.NewTag(reference)
	if err != nil {
		return err
	}
	image := v1.Image(empty.Image)
	for _, l := range layers {
		built := b.layers[l.name]
		if built == nil {
			var data bytes.Buffer
			if err := l.files.tar(&data); err != nil {
				return err
			}
			open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data.Bytes())), nil }
			if built, err = tarball.LayerFromOpener(open, tarball.WithCompressionLevel(gzip.BestSpeed),
				tarball.WithCompressedCaching); err != nil {
				return err
			}
			b.layers[l.name] = built
		}
		if image, err = mutate.AppendLayers(image, built); err != nil {
			return err
		}
	}
	head, err := image.ConfigFile()
	if err != nil {
		return err
	}
	head = head.DeepCopy()
	config.Env = append(config.Env, "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	head.OS, head.Architecture, head.Config = "linux", goarch, config
	b.images[tag], err = mutate.ConfigFile(image, head)
	return err
}

// tar writes the files and their directories.
func (f files) tar(to io.Writer) error {
	all := f.with()
	for at := range f {
		for dir := path.Dir(strings.TrimSuffix(at, "/")); dir != "/"; dir = path.Dir(dir) {
			if _, ok := all[dir+"/"]; !ok {
				all[dir+"/"] = file{mode: 0o755}
			}
		}
	}
	var paths []string
	for at := range all {
		paths = append(paths, at)
	}
	slices.Sort(paths)
	w := tar.NewWriter(to)
	for _, at := range paths {
		if err := all[at].tar(w, strings.TrimPrefix(at, "/")); err != nil {
			return err
		}
	}
	return w.Close()
}

func (f file) tar(w *tar.Writer, at string) error {
	h := &tar.Header{Name: at, Mode: int64(f.mode.Perm())}
	if f.mode&fs.ModeSetuid != 0 {
		h.Mode |= 0o4000
	}
	if f.mode&fs.ModeSticky != 0 {
		h.Mode |= 0o1000
	}
	content := []byte(f.text)
	switch {
	case strings.HasSuffix(at, "/"):
		h.Typeflag = tar.TypeDir
	case f.to != "":
		h.Typeflag, h.Linkname, h.Mode = tar.TypeSymlink, f.to, 0o777
	case f.from != "":
		var err error
		if content, err = os.ReadFile(f.from); err != nil {
			return err
		}
		fallthrough
	default:
		h.Typeflag, h.Size = tar.TypeReg, int64(len(content))
	}
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	if h.Typeflag == tar.TypeReg {
		_, err := w.Write(content)
		return err
	}
	return nil
}

// output returns the output of a command, without the last newline.
func output(ctx context.Context, program string, args ...string) (string, error) {
	c := exec.CommandContext(ctx, program, args...)
	c.Env = append(os.Environ(), "GOWORK=off")
	var errors bytes.Buffer
	c.Stderr = &errors
	out, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", path.Base(program), err, strings.TrimSpace(errors.String()))
	}
	return strings.TrimSpace(string(out)), nil
}
