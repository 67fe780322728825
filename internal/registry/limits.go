package registry

// Limits bound what is read from a repository and unpacked from an archive. A
// limit that is zero is the default's.
type Limits struct {
	// Index is the size of an index.yaml, or of a list of tags, in bytes.
	Index int64
	// Archive is the size of an archive as it travels, in bytes.
	Archive int64
	// Unpacked is the size of all that an archive holds, headers included, in bytes.
	Unpacked int64
	// File is the size of one file in an archive, in bytes.
	File int64
	// Files is how many entries an archive may have, directories included.
	Files int
	// Ratio is how many times larger than the archive its contents may be. It counts
	// from one MiB of contents.
	Ratio int64
}

// DefaultLimits are far above what published charts need: those of llm-d are
// below 200 KiB. The unpacked sizes are those that Helm allows by itself
// (pkg/chart/loader/archive).
var DefaultLimits = Limits{
	Index:    32 << 20,
	Archive:  20 << 20,
	Unpacked: 100 << 20,
	File:     5 << 20,
	Files:    10_000,
	Ratio:    200,
}

// orDefault fills in the limits that aren't set.
func (l Limits) orDefault() Limits {
	if l.Index == 0 {
		l.Index = DefaultLimits.Index
	}
	if l.Archive == 0 {
		l.Archive = DefaultLimits.Archive
	}
	if l.Unpacked == 0 {
		l.Unpacked = DefaultLimits.Unpacked
	}
	if l.File == 0 {
		l.File = DefaultLimits.File
	}
	if l.Files == 0 {
		l.Files = DefaultLimits.Files
	}
	if l.Ratio == 0 {
		l.Ratio = DefaultLimits.Ratio
	}
	return l
}
