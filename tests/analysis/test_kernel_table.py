from toolkit.analysis.kernel_table import KernelRows, count_peaks, kernel_table

OFFSETS = ["-4", "-3", "-2", "-1", "0", "+1", "+2", "+3", "+4"]
HEADS = KernelRows(1, "query", "head", range(-4, 5), [[0.5] * 9, [-1.0] * 9], [[0.1] * 9] * 2)
CHANNELS = KernelRows(
    2,
    "depthwise",
    "channel",
    [-1, 0, 1],
    [[3.0, 1.0, 2.0], [0.0, 1.0, -9.0], [9.0, 1.0, 0.0]],
    None,
)


def test_kernel_table_has_heads_as_rows_and_offsets_as_columns():
    found = kernel_table([HEADS], None)
    assert found.columns == [
        "layer",
        "kernel",
        "head",
        *["-4", "-3", "-2", "-1", "0", "+1", "+2", "+3", "+4"],
    ]
    assert found.rows == [[1, "query", "1", *["0.500"] * 9], [1, "query", "2", *["-1.000"] * 9]]


def test_kernel_table_omits_distant_offsets_on_a_narrow_terminal():
    found = kernel_table([HEADS], 80)
    assert found.columns[3:] == OFFSETS[1:-1]
    assert found.caption.endswith("offsets beyond 3 are omitted")


def test_kernel_table_mentions_omitted_offsets_only_if_there_are_some():
    assert "omitted" not in kernel_table([HEADS.crop(3)], 80).caption


def test_kernel_table_counts_channels_by_their_peak():
    assert count_peaks(CHANNELS) == [2, 0, 1]
    [row] = kernel_table([CHANNELS], None).rows
    assert row[2:] == ["channels", "", "", "2", "0", "1", "", ""]


def test_kernel_rows_select_heads_and_crop_offsets():
    found = HEADS.select_heads([2]).crop(1)
    assert found.offsets == [-1, 0, 1] and found.mean == [[-1.0] * 3]
    assert found.deviation == [[0.1] * 3] and found.to_record()["heads"] == [2]
    assert CHANNELS.select_heads([7]) is CHANNELS
