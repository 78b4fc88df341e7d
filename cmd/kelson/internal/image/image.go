// Package image implements kelson image, and builds the images that kelson deploy deploys.
package image

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kelson.dev/cmd/kelson/internal/output"
	"kelson.dev/cmd/kelson/internal/project"
	"kelson.dev/toolchain/image"
)

// Delivery describes the destinations of an image.
type Delivery struct {
	// Push uploads it to the registry in its name; Load imports it into containerd on this machine.
	Push, Load bool
	// Platforms are those of the image; empty means Linux on this machine's architecture.
	Platforms []string
	// Containerd is the socket of containerd.
	Containerd string
	// Files are SOURCE:PATH, relative to the project.
	Files   []string
	archive string // file to write
	bills   string // folder for bills of materials
}

// AddFlags registers --push, --load, --platform, --file and --containerd.
func (d *Delivery) AddFlags(f *pflag.FlagSet) {
	f.BoolVar(&d.Push, "push", false, "build the image and push it to its registry")
	f.BoolVar(&d.Load, "load", false, "build the image and import it into containerd on this machine, for kelson serve --node=containers")
	f.StringSliceVar(&d.Platforms, "platform", nil,
		"platforms of the image, such as linux/amd64,linux/arm64 (default: this machine's)")
	f.StringArrayVar(&d.Files, "file", nil, "SOURCE:PATH copies a file or folder of the project to an absolute path in the image; may be repeated")
	f.StringVar(&d.Containerd, "containerd", "/run/containerd/containerd.sock", "socket of containerd, for --load")
}

// Wanted reports whether the flags request an image.
func (d *Delivery) Wanted() bool { return d.Push || d.Load || d.archive != "" }

// Command returns kelson image.
func Command() *cobra.Command {
	var d Delivery
	var gens project.Generators
	var format output.Format
	c := &cobra.Command{
		Use:   "image [DIR] NAME",
		Short: "Build a container image of a project's program, without a container engine",
		Long: `Build a container image of a project's program, without a container engine.

It runs the generators, compiles the program for each platform, and packs it with
the certificates of public authorities, time zones, and an unprivileged user,
65532. Nothing is downloaded. Equal sources, compiled by the same Go release, give
equal images, bit for bit; SOURCE_DATE_EPOCH sets the time in the image.

The image goes to one or more places: the registry in its name (--push), a file
(--archive), or containerd on this machine (--load). --push also uploads a bill of
materials in SPDX for each platform, which refers to the image; --sbom writes them
to a folder.`,
		Example: `  kelson image registry.example/shop/operator:v1 --push --platform linux/amd64,linux/arm64
  kelson image shop/operator:dev --load
  kelson image shop/operator:dev --archive operator.tar --sbom .
  kelson image shop/operator:dev --load --file templates:/templates`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return errors.New("the name of the image is missing: kelson " + c.Use)
			}
			return cobra.RangeArgs(1, 2)(c, args)
		},
		RunE: func(c *cobra.Command, args []string) error {
			name := args[len(args)-1]
			if !d.Wanted() {
				return errors.New("no destination: pass --push, --load or --archive FILE")
			}
			if _, err := image.Reference(name); err != nil {
				return err
			}
			p, err := project.Open(project.Folder(args[:len(args)-1]))
			if err != nil {
				return err
			}
			out := c.OutOrStdout()
			if format != output.Text {
				c.SetOut(c.ErrOrStderr()) // generators print to standard error
				defer c.SetOut(out)
			}
			if err := project.Generate(c, p.Dir, gens); err != nil {
				return err
			}
			progress := output.NewProgress(c.ErrOrStderr())
			defer progress.Done()
			progress.Step("building the image for %s", strings.Join(d.platforms(), ", "))
			built, err := d.Build(c.Context(), p)
			if err != nil {
				return err
			}
			digest, err := built.Digest()
			if err != nil {
				return err
			}
			progress.Step("delivering %s", name)
			if err := d.Deliver(c.Context(), built, name); err != nil {
				return err
			}
			progress.Done()
			if format != output.Text {
				return format.Print(out, map[string]any{"name": name, "digest": digest, "platforms": d.platforms()})
			}
			fmt.Fprintf(out, "%s %s\n", name, digest)
			return nil
		},
	}
	d.AddFlags(c.Flags())
	c.Flags().StringVar(&d.archive, "archive", "", "file to write as an OCI archive")
	c.Flags().StringVar(&d.bills, "sbom", "", "folder to write the bills of materials to, as OS-ARCHITECTURE.spdx.json")
	format.AddFlag(c)
	gens.AddFlags(c.Flags())
	gens.AddSkipFlag(c.Flags())
	return c
}

// platforms returns the names of the image's platforms.
func (d *Delivery) platforms() []string {
	if len(d.Platforms) == 0 {
		return []string{"linux/" + runtime.GOARCH}
	}
	return d.Platforms
}

// Build builds the image of a project.
func (d *Delivery) Build(ctx context.Context, p *project.Project) (*image.Image, error) {
	cfg := image.Config{Main: p.Main, Tags: p.Tags,
		Labels: map[string]string{"org.opencontainers.image.title": filepath.Base(p.Dir)}}
	for _, name := range d.platforms() {
		platform, err := image.ParsePlatform(name)
		if err != nil {
			return nil, err
		}
		cfg.Platforms = append(cfg.Platforms, platform)
	}
	for _, text := range d.Files {
		file, err := image.ParseFile(text)
		if err != nil {
			return nil, fmt.Errorf("--file: %w", err)
		}
		if !filepath.IsAbs(file.Source) {
			file.Source = filepath.Join(p.Dir, file.Source)
		}
		cfg.Files = append(cfg.Files, file)
	}
	if epoch := os.Getenv("SOURCE_DATE_EPOCH"); epoch != "" {
		seconds, err := strconv.ParseInt(epoch, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("SOURCE_DATE_EPOCH=%s: want seconds since 1970", epoch)
		}
		cfg.Created = time.Unix(seconds, 0)
	}
	return image.Build(ctx, cfg)
}

// notInName matches characters that the name of an image must not contain.
var notInName = regexp.MustCompile(`[^a-z0-9]+`)

// LocalName returns a name for an image that no registry has. The tag depends on the content, so
// that a Deployment with a new image starts new pods.
func LocalName(p *project.Project, built *image.Image) (string, error) {
	digest, err := built.Digest()
	if err != nil {
		return "", err
	}
	name := strings.Trim(notInName.ReplaceAllString(strings.ToLower(filepath.Base(p.Dir)), "-"), "-")
	if name == "" {
		name = "operator"
	}
	const shown = 12
	return "kelson.local/" + name + ":" + digest.Hex[:shown], nil
}

// Deliver sends the image to all its destinations.
func (d *Delivery) Deliver(ctx context.Context, built *image.Image, name string) error {
	if d.archive != "" {
		if err := built.Archive(d.archive, name); err != nil {
			return fmt.Errorf("write archive: %w", err)
		}
	}
	if d.bills != "" {
		if err := os.MkdirAll(d.bills, 0o755); err != nil {
			return fmt.Errorf("write bill of materials: %w", err)
		}
		for _, b := range built.Bills {
			file := filepath.Join(d.bills, strings.ReplaceAll(b.Platform.String(), "/", "-")+".spdx.json")
			if err := os.WriteFile(file, b.JSON, 0o644); err != nil {
				return fmt.Errorf("write bill of materials: %w", err)
			}
		}
	}
	if d.Push {
		if _, err := built.Push(ctx, name); err != nil {
			return err
		}
	}
	if d.Load {
		return d.load(ctx, built, name)
	}
	return nil
}

// load imports the image into containerd, in the namespace of kubelets.
func (d *Delivery) load(ctx context.Context, built *image.Image, name string) error {
	temp, err := os.MkdirTemp("", "kelson-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	file := filepath.Join(temp, "image.tar")
	if err := built.Archive(file, name); err != nil {
		return err
	}
	output, err := exec.CommandContext(ctx, "ctr", "--address", d.Containerd, "--namespace", "k8s.io", "images",
		"import", file).CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		return errors.New("import the image: --load needs containerd's program ctr, and this machine does not have it")
	}
	if err != nil {
		return fmt.Errorf("import the image into containerd at %s: %w\n%s", d.Containerd, err, bytes.TrimSpace(output))
	}
	return nil
}
