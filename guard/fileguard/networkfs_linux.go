package fileguard

import (
	"os"
	"syscall"
)

// networkMagics are the numbers of statfs(2), from linux/magic.h and, where they are not there, from the file systems' own
// sources and the list of remote ones in stat.c of GNU coreutils. FUSE carries local and remote ones and does not tell
// which, nor whether it locks; VxFS does not tell whether it is a cluster's. Nor does an overlay tell what it lies on: of
// remote file systems the kernel lets only FUSE be its upper layer.
var networkMagics = map[uint32]string{
	0x6969:     "NFS",
	0x517b:     "SMB",
	0xfe534d42: "SMB",
	0xff534d42: "SMB (CIFS)",
	0x01021997: "9p",
	0x00c36400: "Ceph",
	0x5346414f: "AFS",
	0x6b414653: "AFS",
	0x73757245: "Coda",
	0x564c:     "NCP",
	0x0bd00bd0: "Lustre",
	0x7461636f: "OCFS2",
	0x01161970: "GFS2",
	0x47504653: "GPFS",
	0x19830326: "BeeGFS",
	0x20030528: "OrangeFS",
	0xaad7aaea: "PanFS",
	0xbeefdead: "StorNext",
	0x61636673: "ACFS",
	0x013111a8: "IBRIX",
	0x18031977: "WekaFS",
	0xa501fcf5: "VxFS, maybe of a cluster",
	0x786f4256: "a VirtualBox shared folder",
	0xbacbacbc: "a VMware shared folder",
	0x7c7c6673: "a Parallels shared folder",
	0x65735546: "FUSE",
}

func fileSystemOf(path string) (fileSystemType, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(path, &s); err != nil {
		return fileSystemType{}, &os.PathError{Op: "statfs", Path: path, Err: err}
	}
	return fileSystemOfMagic(uint32(s.Type)), nil // its size and sign depend on the architecture
}

// fileSystemOfMagic takes what it does not know for local, as disks have more kinds of file systems than networks.
func fileSystemOfMagic(magic uint32) fileSystemType {
	name, network := networkMagics[magic]
	return fileSystemType{name, network}
}
