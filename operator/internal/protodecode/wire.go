package protodecode

// uvarint decodes the varint at i, and returns its end; negative if malformed. Bits beyond the 64th
// are dropped, as in generated code.
func uvarint(data []byte, i int) (n uint64, end int) {
	if i < len(data) && data[i] < 0x80 {
		return uint64(data[i]), i + 1
	}
	for shift := uint(0); shift < 64 && i < len(data); shift += 7 {
		b := data[i]
		i++
		if n |= uint64(b&0x7f) << shift; b < 0x80 {
			return n, i
		}
	}
	return 0, -1
}

// skip returns the end of the value at i; negative if it is malformed or a group.
func skip(data []byte, i int, wire uint64) (end int) {
	switch wire {
	case 0:
		_, i = uvarint(data, i)
		return i
	case 1:
		i += 8
	case 2:
		var length uint64
		if length, i = uvarint(data, i); i < 0 || length > uint64(len(data)-i) {
			return -1
		}
		i += int(length)
	case 5:
		i += 4
	default:
		return -1
	}
	if i > len(data) {
		return -1
	}
	return i
}

// run returns the number of consecutive fields with a tag, and their end. One begins at i.
func run(data []byte, i int, tag uint64) (count, end int) {
	for i < len(data) {
		t, next := uvarint(data, i)
		if next < 0 {
			return 0, -1
		}
		if t != tag {
			break
		}
		if i = skip(data, next, bytes); i < 0 {
			return 0, -1
		}
		count++
	}
	return count, i
}

// element returns the value of the length-delimited field at i. The end is negative if it is
// malformed.
func element(data []byte, i int) (value []byte, end int) {
	_, i = uvarint(data, i)
	if i < 0 {
		return nil, -1
	}
	length, i := uvarint(data, i)
	if i < 0 || length > uint64(len(data)-i) {
		return nil, -1
	}
	end = i + int(length)
	return data[i:end], end
}

// entry returns key and value of the map entry at i; the end is negative if it is malformed. Some
// marshalers omit empty values.
func entry(data []byte, i int) (key, value []byte, end int) {
	in, end := element(data, i)
	if end < 0 || len(in) == 0 || in[0] != 1<<3|bytes {
		return nil, nil, -1
	}
	key, i = element(in, 0)
	if i == len(in) {
		return key, nil, end
	}
	if i < 0 || in[i] != 2<<3|bytes {
		return nil, nil, -1
	}
	value, i = element(in, i)
	if i != len(in) {
		return nil, nil, -1
	}
	return key, value, end
}
