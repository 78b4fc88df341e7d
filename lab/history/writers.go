package history

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// Writers returns the field managers that wrote an object between two versions of it, the last
// writer first: those whose entry in metadata.managedFields is new or has a new time. from is nil
// for an object that was created. at is the time of the version to.
//
// The times of entries are in seconds, so a manager that writes twice in a second has the same
// entry. If no entry has changed, the writers are therefore those that own a changed field, and
// wrote in the second of at. None means that the server made the change for a request that has no
// manager, such as a deletion.
func Writers(from, to []byte, at time.Time) ([]Owner, error) {
	before, err := owners(from)
	if err != nil {
		return nil, err
	}
	after, err := owners(to)
	if err != nil {
		return nil, err
	}
	same := func(o Owner) bool { return slices.ContainsFunc(before, func(b Owner) bool { return b.equal(o) }) }
	written := slices.DeleteFunc(slices.Clone(after), same)
	if len(written) == 0 {
		if written, err = changers(from, to); err != nil {
			return nil, err
		}
		written = slices.DeleteFunc(written, func(o Owner) bool {
			age := at.Sub(o.Time)
			return age <= -time.Second || age >= 2*time.Second
		})
	}
	slices.SortStableFunc(written, func(a, b Owner) int { return b.Time.Compare(a.Time) })
	return written, nil
}

// changers returns the managers that own a field whose value differs from that in an earlier
// version.
func changers(from, to []byte) (found []Owner, err error) {
	values := map[string]string{}
	if err := leaves(from, func(path, value string, _ []Owner) { values[path] = value }); err != nil {
		return nil, err
	}
	err = leaves(to, func(path, value string, owners []Owner) {
		if before, ok := values[path]; ok && before == value {
			return
		}
		for _, o := range owners {
			if !slices.ContainsFunc(found, o.equal) {
				found = append(found, o)
			}
		}
	})
	return found, err
}

// leaves calls field for each field of an object without parts, with its owners.
func leaves(data []byte, field func(path, value string, owners []Owner)) error {
	obj, err := decodeObject(data, DiffOptions{Metadata: true})
	if err != nil {
		return err
	}
	meta, _ := obj["metadata"].(map[string]any)
	trees, err := ownerTrees(meta["managedFields"])
	if err != nil {
		return err
	}
	delete(meta, "resourceVersion")
	delete(meta, "managedFields")
	return (&blamer{}).walk("", obj, trees, nil, field)
}

// equal reports whether two entries are those of one manager, with the same time.
func (o Owner) equal(other Owner) bool {
	return o.Manager == other.Manager && o.Operation == other.Operation && o.Subresource == other.Subresource &&
		o.Time.Equal(other.Time)
}

// owners decodes the managers of an object, without their fields; nil has none.
func owners(data []byte) ([]Owner, error) {
	if data == nil {
		return nil, nil
	}
	var object struct {
		Metadata struct{ ManagedFields []Owner }
	}
	if err := json.Unmarshal(data, &object); err != nil {
		return nil, fmt.Errorf("decode managedFields: %w", err)
	}
	return object.Metadata.ManagedFields, nil
}
