package etcdtest

// DataDir is the member's data folder, --data-dir in etcd's terms. While the member is stopped it can be copied, or replaced
// by an older copy or by what etcdutl makes of a snapshot; Restart then serves what is there:
//
//	m.Stop()
//	err := os.RemoveAll(m.DataDir())
//	out, err := exec.Command("etcdutl", append([]string{"snapshot", "restore", snapshot}, m.RestoreFlags()...)...).CombinedOutput()
//	err = m.Restart(ctx)
func (m *Member) DataDir() string { return m.dir }

// RestoreFlags are the flags by which etcdutl snapshot restore, of 3.6 or later, makes a data folder for this member at
// DataDir, which must not be there. Those that change what is restored, such as --bump-revision, are the caller's.
func (m *Member) RestoreFlags() []string {
	return []string{
		"--data-dir=" + m.dir,
		"--name=" + m.name,
		"--initial-cluster=" + m.initial,
		"--initial-cluster-token=" + m.cluster.token(),
		"--initial-advertise-peer-urls=" + m.proxy.Endpoint(),
	}
}
