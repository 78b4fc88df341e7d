package image

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Reference checks a name such as registry.example/shop/operator:v1, and returns it with its
// registry and tag.
func Reference(text string) (name.Tag, error) {
	if text == "" {
		return name.Tag{}, errors.New("an image needs a name, such as registry.example/shop/operator:v1")
	}
	tag, err := name.NewTag(text)
	if err != nil {
		return name.Tag{}, fmt.Errorf("invalid name of an image: %w", err)
	}
	return tag, nil
}

// Push uploads the image and its bills, which refer to the images of their platforms. Credentials
// are those of docker login or podman login. Registries on this machine may use HTTP.
func (i *Image) Push(ctx context.Context, ref string) (v1.Hash, error) {
	tag, err := Reference(ref)
	if err != nil {
		return v1.Hash{}, err
	}
	options := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
	if err := remote.WriteIndex(tag, i.Index, options...); err != nil {
		return v1.Hash{}, fmt.Errorf("push %s: %w", tag, err)
	}
	manifest, err := i.Index.IndexManifest()
	if err != nil {
		return v1.Hash{}, err
	}
	for n, bill := range i.Bills {
		attached, err := bill.attached(manifest.Manifests[n])
		if err != nil {
			return v1.Hash{}, err
		}
		digest, err := attached.Digest()
		if err != nil {
			return v1.Hash{}, err
		}
		if err := remote.Write(tag.Digest(digest.String()), attached, options...); err != nil {
			return v1.Hash{}, fmt.Errorf("push the bill of materials of %s: %w", tag, err)
		}
	}
	return i.Index.Digest()
}

// attached returns the bill as an OCI artifact that refers to an image.
func (b Bill) attached(to v1.Descriptor) (v1.Image, error) {
	img, err := mutate.Append(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), BillType),
		mutate.Addendum{Layer: static.NewLayer(b.JSON, BillType), MediaType: BillType})
	if err != nil {
		return nil, err
	}
	subject, ok := mutate.Subject(img, v1.Descriptor{MediaType: to.MediaType, Size: to.Size, Digest: to.Digest}).(v1.Image)
	if !ok {
		return nil, errors.New("attach the bill of materials: not an image")
	}
	return subject, nil
}

// containerdName is the annotation from which containerd takes the name of an imported image.
const containerdName = "io.containerd.image.name"

// Archive writes an OCI archive: a tar file of an image layout, which ctr images import, podman
// load and docker load read. Equal images give equal files.
func (i *Image) Archive(file, ref string) (err error) {
	tag, err := Reference(ref)
	if err != nil {
		return err
	}
	temp, err := os.MkdirTemp("", "kelson-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	at, err := layout.Write(temp, empty.Index)
	if err != nil {
		return err
	}
	// A single image is not wrapped in an index, which some importers can't read.
	var content mutate.Appendable = i.Index
	if len(i.Bills) == 1 {
		if content, err = only(i.Index); err != nil {
			return err
		}
	}
	// the library names Docker's registry by the host of its API
	full := strings.Replace(tag.Name(), name.DefaultRegistry+"/", "docker.io/", 1)
	annotations := layout.WithAnnotations(map[string]string{containerdName: full,
		"org.opencontainers.image.ref.name": tag.TagStr()})
	switch content := content.(type) {
	case v1.Image:
		err = at.AppendImage(content, annotations)
	case v1.ImageIndex:
		err = at.AppendIndex(content, annotations)
	}
	if err != nil {
		return err
	}
	out, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	return errors.Join(archive(out, temp), out.Close())
}

// only returns the image of an index for one platform.
func only(index v1.ImageIndex) (v1.Image, error) {
	images, err := partial.FindImages(index, func(v1.Descriptor) bool { return true })
	if err != nil {
		return nil, err
	}
	if len(images) != 1 {
		return nil, fmt.Errorf("%d images, want one", len(images))
	}
	return images[0], nil
}

// archive writes the files of a folder, in the order of their names and without a time.
func archive(to io.Writer, folder string) error {
	w := tar.NewWriter(to)
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == folder {
			return err
		}
		below, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		h := &tar.Header{Name: strings.ReplaceAll(below, string(filepath.Separator), "/"), ModTime: time.Unix(0, 0),
			Mode: 0o644, Typeflag: tar.TypeReg, Format: tar.FormatPAX}
		if d.IsDir() {
			h.Name, h.Mode, h.Typeflag = h.Name+"/", 0o755, tar.TypeDir
			return w.WriteHeader(h)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		h.Size = int64(len(content))
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		_, err = w.Write(content)
		return err
	})
	return errors.Join(err, w.Close())
}
